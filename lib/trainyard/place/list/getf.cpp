#include "trainyard/place/list/getf.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainyard/core/portable_math.hpp"
#include "trainyard/place/list/etf.hpp"

namespace trainyard {
namespace {

/// Relative to the fastest device. Without an op that all can run, every device counts as fast.
IdMap<DeviceId, double> speeds_of(const Problem& problem) {
  IdMap<DeviceId, double> time(problem.device_count(), 0);
  for (const OpId op : problem.ops()) {
    const auto can = [&](DeviceId device) { return problem.can_run(op, device); };
    if (!std::ranges::all_of(problem.devices(), can)) continue;
    for (const DeviceId device : problem.devices())
      time[device] += static_cast<double>(problem.duration(op, device).count);
  }
  const double least = *std::ranges::min_element(time);
  for (double& each : time) each = each > 0 ? least / each : 1;
  return time;
}

/// The longest chain of shortest durations through each op.
IdMap<OpId, Nanoseconds> longest_through(const Problem& problem) {
  const Graph& graph = problem.graph();
  const auto& order = graph.topological_order();
  IdMap<OpId, Nanoseconds> before(problem.op_count()), from(problem.op_count());
  for (const OpId op : order) {
    const auto follow = [&](OpId earlier) {
      before[op] = std::max(before[op], before[earlier] + problem.shortest(earlier));
    };
    for (const TensorId tensor : graph.inputs(op)) follow(graph.producer(tensor));
    std::ranges::for_each(graph.after(op), follow);
  }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    Nanoseconds after{0};
    const auto precede = [&](OpId later) { after = std::max(after, from[later]); };
    for (const TensorId tensor : graph.outputs(*at)) std::ranges::for_each(graph.consumers(tensor), precede);
    std::ranges::for_each(graph.before(*at), precede);
    from[*at] = after + problem.shortest(*at);
  }
  for (const OpId op : problem.ops()) from[op] += before[op];
  return from;
}

}  // namespace

SpeedGroups speed_groups(const Problem& problem) {
  const IdMap<DeviceId, double> speed = speeds_of(problem);
  const auto devices = static_cast<double>(problem.device_count());
  double gamma = 2;
  if (devices > 2) {
    const double bits = portable_log(devices) / portable_log(2);
    gamma = std::max(gamma, bits * portable_log(2) / portable_log(bits));
  }
  std::vector<double> from;  // the least speed of each class, ascending; the last class has the fastest device
  for (double bound = 1 / devices; bound <= 1; bound *= gamma) from.push_back(bound);
  std::vector<std::size_t> group_of(from.size(), SpeedGroups::kNone);
  SpeedGroups groups{IdMap<DeviceId, std::size_t>(problem.device_count(), SpeedGroups::kNone), {}, {}};
  for (std::size_t at = from.size(); at-- > 0;)
    for (const DeviceId device : problem.devices()) {
      if (speed[device] < from[at] || (at + 1 < from.size() && speed[device] >= from[at + 1])) continue;
      if (group_of[at] == SpeedGroups::kNone) {
        group_of[at] = groups.total.size();
        groups.total.push_back(0);
        groups.slowest.push_back(1);
      }
      groups.of[device] = group_of[at];
      groups.total[group_of[at]] += speed[device];
      groups.slowest[group_of[at]] = std::min(groups.slowest[group_of[at]], speed[device]);
    }
  return groups;
}

IdMap<OpId, std::size_t> speed_group_of_ops(const Problem& problem, const SpeedGroups& groups) {
  const IdMap<OpId, Nanoseconds> through = longest_through(problem);
  double work = 0, longest = 0;
  for (const OpId op : problem.ops()) {
    work += static_cast<double>(problem.shortest(op).count);
    longest = std::max(longest, static_cast<double>(through[op].count));
  }
  const double all = std::accumulate(groups.total.begin(), groups.total.end(), 0.0);
  const double least = std::max(longest, work / all);
  IdMap<OpId, std::size_t> of(problem.op_count(), 0);
  for (const OpId op : problem.ops()) {
    const double needed = least > 0 ? static_cast<double>(through[op].count) / least : 1;
    for (std::size_t group = 1; group < groups.total.size(); ++group)
      if (groups.slowest[group] >= needed && groups.total[group] > groups.total[of[op]]) of[op] = group;
  }
  return of;
}

Schedule getf(const Problem& problem, PlanOrder order, std::function<bool()> stop) {
  const SpeedGroups groups = speed_groups(problem);
  const IdMap<OpId, std::size_t> of = speed_group_of_ops(problem, groups);
  return etf(problem, {.order = order,
                       .wanted = [&](OpId op, DeviceId device) { return groups.of[device] == of[op]; },
                       .stop = std::move(stop)});
}

}  // namespace trainyard
