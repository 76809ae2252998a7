#include "trainyard/place/learned/placement_task.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/learned/placement_walk.hpp"
#include "trainyard/place/simple/expert.hpp"
#include "trainyard/place/simple/simple.hpp"

namespace trainyard::learned {
namespace {

constexpr double kPenaltyPerByte = 2;  // ns

OpGroups groups_of(const Problem& problem, const Grouping& grouping, std::function<void()> checkpoint) {
  MergeOptions options{.most_groups = grouping.most, .kind = device_sets(problem), .checkpoint = std::move(checkpoint)};
  if (grouping.heaviest > 0) {
    options.weight = IdMap<OpId, std::int64_t>(problem.op_count());
    std::int64_t all = 0;
    for (const OpId op : problem.ops()) {
      options.weight[op] = static_cast<std::int64_t>(mean_time(problem, op));
      all += options.weight[op];
    }
    options.heaviest =
        static_cast<std::int64_t>(grouping.heaviest * static_cast<double>(all) / static_cast<double>(grouping.most));
  }
  return merge_and_colocate(problem.graph(), options);
}

}  // namespace

PlacementTask::PlacementTask(const Problem& the_problem, const Grouping& grouping, std::function<bool()> the_stop)
    : problem(the_problem),
      stop(std::move(the_stop)),
      groups(groups_of(problem, grouping, [this] { checkpoint(); })),
      sets(learn::RowLists{}) {
  const Graph& graph = problem.graph();
  std::vector<std::map<std::uint32_t, double>> in(size()), out(size());  // ns
  features = group_features(problem, groups);
  may_run.assign(size() * devices(), 1);
  const auto link = [&](std::uint32_t from, std::uint32_t to, double time) {
    if (from == to) return;
    out[from][to] += time;
    in[to][from] += time;
  };
  load.assign(size(), 0);
  bytes.assign(size(), 0);
  may_exceed = memory_may_bind(problem);
  double all = 0;
  for (const OpId op : problem.ops()) {
    const std::uint32_t group = groups.of[op];
    const double time = mean_time(problem, op);
    load[group] += time;
    bytes[group] += static_cast<double>(problem.resident_bytes(op).count);
    all += time;
    for (const DeviceId device : problem.devices())
      if (!problem.can_run(op, device)) may_run[groups.of[op] * devices() + device.index()] = 0;
    for (const TensorId tensor : graph.outputs(op)) {
      bytes[group] += static_cast<double>(graph.bytes(tensor).count);
      std::set<std::uint32_t> readers;
      for (const OpId reader : graph.consumers(tensor)) readers.insert(groups.of[reader]);
      for (const std::uint32_t reader : readers) link(group, reader, mean_transfer_time(problem, tensor));
    }
    for (const OpId later : graph.before(op)) link(group, groups.of[later], 0);
  }
  from_parents.resize(size());
  to_children.resize(size());
  parent_times.resize(size());
  for (std::size_t group = 0; group < size(); ++group) {
    double sum = load[group];
    for (const auto* edges : {&in[group], &out[group]})
      for (const auto& [other, time] : *edges) sum += time;
    const auto add = [sum](const auto& edges, learn::RowLists& lists, std::vector<double>& shares) {
      for (const auto& [other, time] : edges) {
        lists.add_item(other);
        shares.push_back(sum > 0 ? time / sum : 0);
      }
      lists.end_row();
    };
    add(in[group], parents, from_parents[group]);
    for (const auto& [other, time] : in[group]) parent_times[group].push_back(time);
    add(out[group], children, to_children[group]);
  }
  for (double& time : load) time *= all > 0 ? static_cast<double>(devices()) / all : 0;
  sets = learn::Reachability{children};
  if (size() == 0) return;
  PlacementCosts evaluator{*this};
  try {
    for (auto* place : {place_single, place_round_robin, place_expert}) {
      Devices candidate = devices_of(place(problem).placement);
      const double cost = evaluator.cost(candidate);
      if (start.empty() || cost < start_cost) {
        start = std::move(candidate);
        start_cost = cost;
      }
    }
  } catch (const OutOfTime&) {
    if (start.empty()) throw;
  }
}

Placement PlacementTask::placement(const Devices& chosen) const {
  Placement placement(problem.op_count());
  for (const OpId op : problem.ops()) placement[op] = DeviceId{chosen[groups.of[op]]};
  return placement;
}

Devices PlacementTask::devices_of(const Placement& placement) const {
  Devices chosen(size());
  for (std::size_t group = 0; group < size(); ++group) {
    std::vector<std::int64_t> time(devices(), -1);
    for (const OpId op : groups.ops[group]) {
      const DeviceId device = placement[op];
      time[device.index()] += 1 + problem.duration(op, device).count;
    }
    chosen[group] = static_cast<std::uint32_t>(std::ranges::max_element(time) - time.begin());
  }
  return chosen;
}

double memory_penalty(const PlacementTask& task, const MemoryPeaks& peaks) {
  if (peaks.fits) return 0;
  double excess = 0;
  for (const DeviceId device : task.problem.devices()) {
    const auto memory = task.problem.cluster().device(device).memory;
    if (memory) excess += static_cast<double>(std::max(Bytes{0}, peaks.peak[device] - *memory).count);
  }
  return kPenaltyPerByte * excess;
}

PlacementCosts::PlacementCosts(const PlacementTask& task) : task_(&task), simulation_(task.problem) {}

double PlacementCosts::cost(const Devices& devices) {
  task_->checkpoint();
  const Schedule schedule{.placement = task_->placement(devices)};
  if (!task_->may_exceed) return static_cast<double>(simulation_.makespan(schedule).count);
  const MemoryPeaks& peaks = simulation_.peaks(schedule);
  return static_cast<double>(peaks.makespan.count) + memory_penalty(*task_, peaks);
}

std::vector<double> PlacementCosts::costs_on_the_way(const Devices& start, const Devices& devices,
                                                     std::span<const std::uint32_t> order) {
  PlacementWalk walk{*task_, start};
  std::vector<double> costs{walk.cost()};
  for (const std::uint32_t group : order) {
    const bool moves = devices[group] != start[group];
    walk.move(group, devices[group]);
    costs.push_back(moves ? walk.cost() : costs.back());
  }
  return costs;
}

}  // namespace trainyard::learned
