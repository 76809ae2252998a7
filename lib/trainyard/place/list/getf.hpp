#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Devices in groups of like speed, by descending speed. With m devices, the speed s(d) of a device relative to the
/// fastest, and gamma = log m / log log m (2 at least; logarithms to base 2):
///
///     devices of s(d) < 1/m are in no group; group k of the others has gamma^k / m <= s(d) < gamma^(k+1) / m
///
/// Ours: a device's speed is the time of all ops that every device can run on the fastest, over their time there.
struct SpeedGroups {
  IdMap<DeviceId, std::size_t> of;  // kNone: in none
  std::vector<double> slowest;      // by group: the speed of its slowest device
  std::vector<double> total;        // by group: the speeds of its devices, summed
  static constexpr std::size_t kNone = ~std::size_t{0};
};
SpeedGroups speed_groups(const Problem& problem);

/// The group of each op that getf() takes. With l(i) the longest chain through op i and l the longest of all, on the
/// fastest device and without transfers, w all op time there, and T = max(l, w / sum of s(d)), which no schedule is
/// shorter than on machines of these speeds:
///
///     group(i) = of the groups whose slowest device has s >= l(i) / T, the one with the most speed in total;
///                ties go to the faster
///
/// so that every chain, each op at its group's speed, takes T at most. The paper rounds a linear program's fractions to
/// groups instead; ours needs none.
IdMap<OpId, std::size_t> speed_group_of_ops(const Problem& problem, const SpeedGroups& groups);

/// Generalized earliest time first: etf() with each op on the devices of its group alone. What cannot run there, or
/// finds no room, goes where it starts first of all. On devices that are alike it is ETF.
///
/// Y. Su, X. Ren, S. Vardi, A. Wierman: Communication-aware scheduling of precedence-constrained tasks on related
/// machines. arXiv 2004.14639, 2020.
Schedule getf(const Problem& problem, PlanOrder order = PlanOrder::best, std::function<bool()> stop = {});

}  // namespace trainyard
