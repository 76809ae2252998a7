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

/// A training graph in blocks, on the devices that plans of it use: in the order of a ring over the fastest links,
/// where those within a machine differ (8xV100), and of that by DeviceOrder.
struct PlanSetting {
  const Problem& problem;
  const PlanPlacerOptions& options;
  DeviceOrder order;
  std::vector<DeviceId> devices;
  std::size_t batch;
  Layers layers;
  ChainOfBlocks chain{problem, layers, devices, batch,
                      [this](const ParallelPlan& plan) { return detail_of(plan) == PlanDetail::rings; }};

  /// Throws InputError ("no-training").
  PlanSetting(const Problem& on, const PlanPlacerOptions& asked, DeviceOrder by = DeviceOrder::given);
  PlanSetting(const PlanSetting&) = delete;  // the chain refers to the layers
  PlanSetting& operator=(const PlanSetting&) = delete;

  bool has_hosts() const;
  /// Stages of replicas of their own cannot add up what other stages make of each microbatch: every gradient of
  /// parameters is to be read in the block that makes it, or by an update.
  bool may_differ_by_stage() const;
  /// How the plan can be simulated; nothing where it is too large.
  std::optional<PlanDetail> detail_of(const ParallelPlan& plan) const;
  /// One that is searched for and simulated.
  PlannedSchedule planned(const ParallelPlan& plan) const { return planned(plan, options.stop); }
  PlannedSchedule planned(const ParallelPlan& plan, const std::function<bool()>& stop) const {
    return planned(plan, stop, limits::kRewrittenOps, true);
  }
  /// One of so many ops at most, where it is folded.
  PlannedSchedule planned(const ParallelPlan& plan, const std::function<bool()>& stop, std::size_t most_ops,
                          bool simulated) const;
};

/// Orders of the devices that plans take which are not alike, the given one first.
std::vector<DeviceOrder> device_orders(const Problem& problem);

/// Throws InputError ("no-training").
void check_training(const Graph& graph);

/// Samples of a step: as many as are asked for, else 16 for each device. Throws InputError ("range") for less than one.
std::size_t batch_of(const PlanPlacerOptions& options, std::size_t devices);

}  // namespace trainyard
