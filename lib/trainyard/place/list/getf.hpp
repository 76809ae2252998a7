#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Devices in groups of similar speed, by descending speed. With m devices, the speed s(d) of device d relative to the
/// fastest, and gamma = log m / log log m (at least 2; logarithms to base 2):
///
///     devices of s(d) < 1/m are in no group; group k of the others has gamma^k / m <= s(d) < gamma^(k+1) / m
///
/// Empty groups are left out. The speed of a device is taken over the ops that every device can run: their time on the
/// fastest device over their time on this one (own definition).
struct SpeedGroups {
  IdMap<DeviceId, std::size_t> of;  // kNone: in no group
  std::vector<double> slowest;      // by group: the speed of its slowest device
  std::vector<double> total;        // by group: the speeds of its devices, summed
  static constexpr std::size_t kNone = ~std::size_t{0};
};
SpeedGroups speed_groups(const Problem& problem);

/// The speed group that getf() uses for each op. Let l(i) be the longest chain through op i and l the longest of all,
/// on the fastest device and without transfers; w the time of all ops; and T = max(l, w / sum of s(d)), a lower bound
/// on machines of these speeds:
///
///     group(i) = of the groups whose slowest device has s >= l(i) / T, the one with the most speed in total;
///                ties go to the faster
///
/// Every chain, with each op at its group's speed, then takes at most T. The paper instead rounds the fractions of a
/// linear program to groups.
IdMap<OpId, std::size_t> speed_group_of_ops(const Problem& problem, const SpeedGroups& groups);

/// Generalized earliest time first: etf() with each op only on devices of its group. An op that cannot run there, or
/// finds no room, goes where it starts first of all. On identical devices it is ETF.
///
/// Y. Su, X. Ren, S. Vardi, A. Wierman: Communication-aware scheduling of precedence-constrained tasks on related
/// machines. arXiv 2004.14639, 2020.
Schedule getf(const Problem& problem, PlanOrder order = PlanOrder::best, std::function<bool()> stop = {});

}  // namespace trainyard
