#include "trainyard/place/list/getf.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "trainyard/bound/chains.hpp"
#include "trainyard/core/portable_math.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/list/etf.hpp"

namespace trainyard {
namespace {

/// Speeds relative to the fastest device; all 1 if no op can run on every device.
IdMap<DeviceId, double> speeds_of(const Problem& problem) {
  const std::vector<double> times = common_times(problem);
  const double least = *std::ranges::min_element(times);
  IdMap<DeviceId, double> speeds(problem.device_count(), 1);
  for (const DeviceId device : problem.devices())
    if (const double time = times[problem.column(device)]; time > 0) speeds[device] = least / time;
  return speeds;
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
  const Chains chains = chains_of_ops(problem);
  double work = 0;
  for (const OpId op : problem.ops()) work += static_cast<double>(problem.shortest(op).count);
  const double all = std::accumulate(groups.total.begin(), groups.total.end(), 0.0);
  const double least = std::max(static_cast<double>(longest_chain(problem, chains).count), work / all);
  IdMap<OpId, std::size_t> of(problem.op_count(), 0);
  for (const OpId op : problem.ops()) {
    const Nanoseconds through = chains.head[op] + problem.shortest(op) + chains.tail[op];
    const double needed = least > 0 ? static_cast<double>(through.count) / least : 1;
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
