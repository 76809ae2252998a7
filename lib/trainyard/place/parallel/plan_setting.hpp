#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/core/limits.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// A training graph in blocks, and the devices that its plans use: in the order of a ring over the fastest links if
/// links within a machine differ (8xV100), then sorted by DeviceOrder.
struct PlanSetting {
  const Problem& problem;
  const PlanPlacerOptions& options;
  DeviceOrder order;
  std::vector<DeviceId> devices;
  std::size_t batch;
  Layers layers;
  ChainOfBlocks chain{problem, layers, devices, batch,
                      [this](const ParallelPlan& plan) { return detail_of(plan) == PlanDetail::rings; }};

  /// Throws InputError "no-training", and "range" as batch_of() does.
  PlanSetting(const Problem& on, const PlanPlacerOptions& asked, DeviceOrder by = DeviceOrder::given);
  PlanSetting(const PlanSetting&) = delete;  // the chain refers to the layers
  PlanSetting& operator=(const PlanSetting&) = delete;

  bool has_hosts() const;
  /// Whether degrees may differ by stage. Such stages cannot add up gradients that other stages make in each
  /// microbatch, so every gradient of parameters must be read in the block that makes it, or by an update.
  bool may_differ_by_stage() const;
  /// How the plan can be simulated; nothing if it is too large.
  std::optional<PlanDetail> detail_of(const ParallelPlan& plan) const;
  /// The simulated schedule of a plan from the search, of at most limits::kRewrittenOps ops.
  PlannedSchedule planned(const ParallelPlan& plan) const { return planned(plan, options.stop); }
  PlannedSchedule planned(const ParallelPlan& plan, const std::function<bool()>& stop) const {
    return planned(plan, stop, limits::kRewrittenOps, true);
  }
  /// The schedule of a plan, of at most `most_ops` ops if it is folded.
  PlannedSchedule planned(const ParallelPlan& plan, const std::function<bool()>& stop, std::size_t most_ops,
                          bool simulated) const;
};

/// Orders of the devices to plan with, the given one first. Orders that differ only in equal devices count once.
std::vector<DeviceOrder> device_orders(const Problem& problem);

/// Throws InputError "no-training" if the graph trains no parameters.
void check_training(const Graph& graph);

/// Samples of a step: as requested, otherwise 16 for each device. Throws InputError "range" for less than one.
std::size_t batch_of(const PlanPlacerOptions& options, std::size_t devices);

}  // namespace trainyard
