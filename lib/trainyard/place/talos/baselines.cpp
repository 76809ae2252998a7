#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/predecessors.hpp"
#include "trainyard/place/talos/talos.hpp"

namespace trainyard {
namespace {

/// Devices by descending speed: those that are not the reference of speedups first, then by the time of the ops that
/// can run everywhere; ties: CPUs last, then the lower id.
std::vector<DeviceId> fastest_first(const Problem& problem) {
  const std::vector<bool> reference = reference_columns(problem);
  const std::vector<double> times = common_times(problem);
  std::vector<DeviceId> devices;
  for (const DeviceId device : problem.devices()) devices.push_back(device);
  sort_by(devices, [&](DeviceId device) {
    return std::tuple{bool{reference[problem.column(device)]}, times[problem.column(device)],
                      problem.cluster().device(device).device_class == "cpu"};
  });
  return devices;
}

Schedule by_planned_start(const Problem& problem, const AnalyticPlan& plan, std::vector<OpId> taken) {
  Schedule schedule = plan.schedule();
  set_order(problem, std::move(taken), PlanOrder::start, schedule);
  return schedule;
}

}  // namespace

Schedule place_whole_models(const Problem& problem, const std::function<bool()>& stop) {
  const Models models = find_models(problem.graph());
  const IdMap<ModelId, double> speedups = model_speedups(problem, models);
  std::vector<ModelId> order;
  for (const ModelId model : speedups.ids()) order.push_back(model);
  sort_by_descending(order, [&](ModelId model) { return speedups[model]; });
  std::vector<DeviceId> devices = fastest_first(problem);
  IdMap<ModelId, DeviceId> home(models.size());
  const std::size_t used = std::min(devices.size(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i) home[order[i]] = devices[i * used / order.size()];

  AnalyticPlan plan{problem, false, 100, Checkpoint{stop}};
  const auto& taken = problem.graph().topological_order();
  for (const OpId op : taken) {
    const DeviceId device = home[models.of[op]];
    const auto able = plan.candidates(op);
    const bool there = std::ranges::find(able, device) != able.end();
    plan.place(op, there ? plan.earliest_slot(op, device) : plan.earliest_finish(op));
  }
  return by_planned_start(problem, plan, taken);
}

Schedule place_first_come(const Problem& problem, const std::function<bool()>& stop) {
  const Graph& graph = problem.graph();
  Checkpoint checkpoint{stop};
  AnalyticPlan plan{problem, false};
  Predecessors predecessors{graph};
  struct Waiting {
    Nanoseconds since;
    OpId op;

    auto operator<=>(const Waiting&) const = default;
  };
  std::set<Waiting> waiting;
  using Ending = std::pair<Nanoseconds, OpId>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings;
  std::vector<OpId> taken;
  Nanoseconds now{0};
  const auto add = [&](OpId op) { waiting.insert({now, op}); };
  for (const OpId op : graph.ops())
    if (predecessors.free(op)) add(op);
  while (!waiting.empty() || !endings.empty()) {
    std::size_t idle = 0;
    for (const DeviceId device : problem.devices()) idle += plan.last_end(device) <= now;
    for (auto at = waiting.begin(); at != waiting.end() && idle > 0;) {
      checkpoint(problem.device_count());
      const OpId op = at->op;
      DeviceId best;
      const auto key = [&](DeviceId device) {
        return std::tuple{problem.duration(op, device), problem.cluster().device(device).device_class == "cpu", device};
      };
      for (const DeviceId device : plan.candidates(op))
        if (plan.last_end(device) <= now && (best.is_none() || key(device) < key(best))) best = device;
      if (best.is_none()) {
        ++at;
        continue;
      }
      AnalyticPlan::Slot slot = plan.earliest_slot(op, best);
      if (slot.start < now) slot = {best, now, now + problem.duration(op, best)};
      plan.place(op, slot);
      taken.push_back(op);
      endings.emplace(slot.finish, op);
      at = waiting.erase(at);
      idle -= plan.last_end(best) > now;
    }
    // The next end of an op, or of the gap after one.
    Nanoseconds next = endings.empty() ? kLongestTime : endings.top().first;
    for (const DeviceId device : problem.devices())
      if (plan.last_end(device) > now) next = std::min(next, plan.last_end(device));
    now = next;
    while (!endings.empty() && endings.top().first == now) {
      const OpId op = endings.top().second;
      endings.pop();
      predecessors.taken(op, add);
    }
  }
  return by_planned_start(problem, plan, std::move(taken));
}

}  // namespace trainyard
