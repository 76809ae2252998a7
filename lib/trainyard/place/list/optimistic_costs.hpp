#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Table of the least time from an op on a device to the end of the step, if devices are always idle. With p(j, q) the
/// duration of op j on device q, c the mean transfer time of the tensor from i to j (see ranks.hpp), j over the ops
/// that must follow i, and q over the devices that can run j:
///
///     optimistic: OCT(i, p) = max over j of min over q of (OCT(j, q) + p(j, q) + [q != p] c),   0 at an exit
///     predicted:  PCM(i, p) = max over j of min over q of (PCM(j, q) + p(j, q) + p(i, q) + [q != p] c),
///                 p(i, p) at an exit; where q cannot run i, i counts its shortest duration
///
/// Stored by class of devices (Problem::column), in the scale of the means: O(edges x classes) to fill.
class OptimisticCosts {
 public:
  enum class Kind : std::uint8_t { optimistic, predicted };
  OptimisticCosts(const Problem& problem, const MeanCosts& means, Kind kind);

  ScaledTime at(OpId op, DeviceId device) const { return table_[op.index() * columns_ + problem_.column(device)]; }
  /// Sum over all devices.
  ScaledTime sum(OpId op) const;
  /// The candidate's slot with the least finish + remaining time, which is OCT(i, p), or PCM(i, p) - p(i, p). Ties go
  /// to the lower id.
  AnalyticPlan::Slot choose(AnalyticPlan& plan, OpId op) const;

 private:
  ScaledTime own(OpId op, std::size_t column) const;
  void precede(OpId op, OpId successor, ScaledTime crossing);

  const Problem& problem_;
  Kind kind_;
  std::int64_t scale_;
  std::size_t columns_;
  std::vector<DeviceId> one_of_;  // a device of each column
  std::vector<ScaledTime> table_, here_;
};

}  // namespace trainyard
