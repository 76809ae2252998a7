#pragma once

#include <optional>

#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// Lower bound on the resident memory of plans: parameters, optimizer state, and gradients if updates come after the
/// last microbatch. Assumes that each of n ranks holds at least 1/n of a layer on a single rank. If
/// PlanCosts::layer_degrees lacks the single rank, the bound is 0.
class LeastMemory {
 public:
  LeastMemory(const PlanCosts& costs, LayerTables& tables);

  /// Whether all devices together have room for one copy of the resident memory, which every plan needs. The second
  /// form says whether to count all `gradients`.
  bool may_fit() const { return may_fit(!gradients_go_); }
  bool may_fit(bool gradients) const { return !is_beyond(once(gradients) / static_cast<double>(costs_.devices)); }
  /// Whether each device has room for its share under `plan`, whatever the cuts.
  bool may_hold(const ParallelPlan& plan);
  /// Throws InputError ("plan"): no plan fits. The help text names the number of devices that would be enough, or the
  /// plan passed to may_hold() that exceeds the memory least.
  [[noreturn]] void refuse() const;

 private:
  struct Resident {
    double weights = 0, state = 0;
    double held(bool gradients) const { return (gradients ? 2 : 1) * weights + state; }
  };

  double of_device(const ParallelPlan& plan) const;
  double once(bool gradients) const { return dense_.held(gradients) + experts_.held(gradients); }
  bool is_beyond(double bytes) const;

  const PlanCosts& costs_;
  Resident dense_, experts_;             // of the whole network
  bool gradients_go_ = false;            // a stage's only microbatch may free gradients before all are made
  bool keeps_gradients_ = false;         // one device could do so too, but plans keep gradients there
  bool any_holds_ = false;               // may_hold() has accepted a plan
  std::optional<ParallelPlan> nearest_;  // the rejected plan that exceeds the memory least
};

}  // namespace trainyard
