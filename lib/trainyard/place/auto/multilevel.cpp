#include "trainyard/place/auto/multilevel.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/auto/island.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/transform/coarsen.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kTargets[] = {200, 800}, kMostDevices = 64;
constexpr double kHeat = 0.03;

/// Clusters of ops that the same devices can run, weighed by their shortest times.
Coarsening merged(const Problem& problem, std::size_t target) {
  OpWeights weights{IdMap<OpId, Nanoseconds>(problem.op_count()), IdMap<OpId, std::uint32_t>(problem.op_count())};
  std::map<std::vector<bool>, std::uint32_t> kinds;
  std::vector<bool> able(problem.device_count());
  for (const OpId op : problem.ops()) {
    weights.time[op] = problem.shortest(op);
    for (const DeviceId device : problem.devices()) able[device.index()] = problem.can_run(op, device);
    weights.kind[op] = kinds.try_emplace(able, static_cast<std::uint32_t>(kinds.size())).first->second;
  }
  return coarsen(problem.graph(), weights, target);
}

/// The op times are the problem's own, so nothing scales them again.
CostModel links_of(CostModel costs) {
  costs.compute_speed = 1;
  costs.device_speeds.clear();
  return costs;
}

/// The problem whose ops are the clusters: the sum of their ops' times, what is resident of them, and the tensors that
/// others read. Clusters that share a colocation group share a device.
Problem coarse_problem(const Problem& problem, const Coarsening& coarsening) {
  const Graph& graph = problem.graph();
  const std::size_t count = coarsening.members.rows();
  std::vector<std::size_t> leader(count);
  std::iota(leader.begin(), leader.end(), std::size_t{0});
  const auto find = [&](std::size_t at) {
    while (leader[at] != at) at = leader[at] = leader[leader[at]];
    return at;
  };
  for (const OpId op : problem.ops()) {
    const OpId first = problem.group_ops(problem.group(op)).front();
    const std::size_t a = find(coarsening.cluster[op].index()), b = find(coarsening.cluster[first].index());
    leader[std::max(a, b)] = std::min(a, b);
  }
  const auto name_of = [](const char* what, std::size_t number) { return what + std::to_string(number); };
  std::vector<OpSpec> specs(count);
  for (std::size_t c = 0; c < count; ++c) {
    OpSpec& spec = specs[c];
    const auto members = coarsening.members[ClusterOpId{c}];
    spec.name = name_of("c", c);
    spec.colocate = name_of("g", find(c));
    for (const DeviceId device : problem.devices()) {
      if (std::ranges::any_of(members, [&](OpId op) { return !problem.can_run(op, device); })) continue;
      Nanoseconds time{0};
      for (const OpId op : members) time += problem.duration(op, device);
      spec.times.push_back({problem.cluster().device(device).name, time});
      spec.device_kinds.push_back(problem.cluster().device(device).name);
    }
    for (const OpId op : members) {
      spec.parameter_bytes += problem.resident_bytes(op);
      spec.workspace_bytes = std::max(spec.workspace_bytes, graph.workspace_bytes(op));
      for (const TensorId tensor : graph.outputs(op)) {
        std::set<std::size_t> readers;
        for (const OpId reader : graph.consumers(tensor)) readers.insert(coarsening.cluster[reader].index());
        readers.erase(c);
        if (readers.empty()) continue;
        spec.outputs.push_back({name_of("t", tensor.index()), graph.bytes(tensor)});
        for (const std::size_t reader : readers) specs[reader].inputs.push_back(spec.outputs.back().name);
      }
    }
  }
  std::set<std::pair<std::size_t, std::size_t>> control;
  for (const OpId op : problem.ops())
    for (const OpId earlier : graph.after(op)) {
      const std::size_t from = coarsening.cluster[earlier].index(), to = coarsening.cluster[op].index();
      if (from != to && control.emplace(from, to).second) specs[to].after.push_back(name_of("c", from));
    }
  GraphBuilder builder{graph.name()};
  for (OpSpec& spec : specs) builder.add(std::move(spec));
  return {std::move(builder).build(), problem.cluster(), links_of(problem.costs())};
}

/// Each group of clusters where most of its time is, of the devices that can run all of it.
Placement coarse_placement(const Problem& problem, const Coarsening& coarsening, const Problem& coarse,
                           const Placement& placement) {
  Placement result(coarse.op_count());
  for (std::size_t g = 0; g < coarse.group_count(); ++g) {
    std::vector<Nanoseconds> time(problem.device_count());
    for (const OpId cluster : coarse.group_ops(GroupId{g}))
      for (const OpId op : coarsening.members[ClusterOpId{cluster.index()}])
        time[placement[op].index()] += problem.shortest(op) + Nanoseconds{1};
    std::optional<DeviceId> best;
    for (const DeviceId device : problem.devices()) {
      if (best && time[device.index()] <= time[best->index()]) continue;
      if (std::ranges::all_of(coarse.group_ops(GroupId{g}), [&](OpId op) { return coarse.can_run(op, device); }))
        best = device;
    }
    for (const OpId cluster : coarse.group_ops(GroupId{g})) result[cluster] = best.value();
  }
  return result;
}

}  // namespace

std::optional<Ordered> multilevel_search(const Problem& problem, const Placement& start,
                                         const MultilevelOptions& options, Random random) {
  if (problem.device_count() > kMostDevices) return std::nullopt;
  Placement placement = start;
  double done = 0;
  for (const std::size_t target : kTargets) {
    if (options.stop && options.stop()) break;
    const Coarsening coarsening = merged(problem, target);
    const std::size_t count = coarsening.members.rows();
    if (count < 2 || count > problem.op_count() / 2) continue;
    std::optional<SearchGround> ground;
    try {
      ground.emplace(coarse_problem(problem, coarsening));
    } catch (const InputError&) {  // clusters that share a device by their groups, and have none
      continue;
    }
    const Problem& coarse = ground->problem;
    const Schedule fifo{.placement = coarse_placement(problem, coarsening, coarse, placement)};
    Island island{*ground, in_started_order(coarse, fifo.placement, Simulation{coarse}.timeline(fifo)),
                  Random{random.next()}};
    const double share = static_cast<double>(count) / static_cast<double>(problem.op_count());
    SearchSlice slice{.stop = options.stop, .heat = kHeat};
    slice.evaluations = static_cast<std::uint64_t>(
        std::min(1e9, static_cast<double>(options.evaluations) / static_cast<double>(std::size(kTargets)) / share));
    std::optional<std::chrono::steady_clock::duration> time = options.time;
    if (time) *time /= static_cast<std::int64_t>(std::size(kTargets));
    island.run(slice, time);
    done += share * static_cast<double>(island.evaluations());
    for (const OpId op : problem.ops()) placement[op] = island.best().placement[OpId{coarsening.cluster[op].index()}];
  }
  Evaluator evaluator{problem};
  Ordered result = best_order(evaluator, {.placement = std::move(placement)});
  result.evaluations += static_cast<std::size_t>(done);
  return result;
}

}  // namespace trainyard
