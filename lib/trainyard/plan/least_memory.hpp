#pragma once

#include <cstddef>
#include <optional>

#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// What plans hold for good, at least: parameters, the optimizer's state, and gradients where updates come behind the
/// last microbatch. Of a layer a rank is taken to have no less than its part of what one rank has; where the costs know
/// no single rank, nothing is known.
class LeastMemory {
 public:
  LeastMemory(const PlanCosts& costs, LayerTables& tables);

  /// Whether all devices together may hold everything once, as in any plan they do; with all gradients, too.
  bool may_fit() const { return may_fit(!gradients_go_); }
  bool may_fit(bool gradients) const { return !is_beyond(once(gradients) / static_cast<double>(costs_.devices)); }
  /// Whether each device may hold the plan's share of it, whatever its cuts.
  bool may_hold(const ParallelPlan& plan);
  /// Throws InputError ("plan"): no plan fits, and how many devices could hold what is asked of them, or the plan
  /// among those that may_hold() was asked for that is least beyond the memory.
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
  bool gradients_go_ = false;            // of the only microbatch of a stage, before all are made;
  bool keeps_gradients_ = false;         // on one device they could, but a plan keeps them
  bool any_holds_ = false;               // of plans that were asked for
  std::optional<ParallelPlan> nearest_;  // of those that cannot hold their share, the one that is least beyond
};

}  // namespace trainyard
