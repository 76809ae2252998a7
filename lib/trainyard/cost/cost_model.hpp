#pragma once

#include <cstdint>
#include <optional>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/cost_table.hpp"
#include "trainyard/cost/efficiency.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// What a duration rests on, in the order in which the sources are asked.
enum class CostSource : std::uint8_t { graph, calibrated_op, calibrated_signature, fit, roofline };

struct OpCost {
  Nanoseconds time;
  CostSource source = CostSource::roofline;

  friend bool operator==(const OpCost&, const OpCost&) = default;
};

/// How long an op takes on a device and bytes take on a route.
///
///     0. graph:     the time that the graph gives for the device's name, kind or class; nothing is added to it
///     1. table:     measured for this op by name, then for its signature        + launch overhead
///     2. roofline:  max(FLOPs / (peak x efficiency), bytes / (memory bandwidth x efficiency))  + launch overhead
///
/// What-if speeds divide: `compute_speed = 2` halves every op time, `link_speed = 0.1` makes every transfer ten times
/// as long (latency included). Times are rounded to the nearest nanosecond, halves up, once at speed 1 and once more
/// where a speed is not 1.
struct CostModel {
  CostTable table = {};
  EfficiencyTable efficiencies = EfficiencyTable::standard();
  double compute_speed = 1;
  double link_speed = 1;

  /// Nothing where the op cannot run on the device: it names other device kinds; or it gives times for other devices
  /// only and has neither FLOPs nor bytes to estimate from; or the device has no peak (and the op FLOPs) or no memory
  /// bandwidth (and the op bytes) to estimate with. An op without FLOPs, bytes and times takes the launch overhead.
  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const;

  /// latency + bytes / bandwidth: each rounded (and scaled) alone, so that time(n) = time(0) + what n bytes take.
  Nanoseconds transfer_time(Bytes bytes, const Route& route) const;
};

/// time / speed to the nearest nanosecond, halves up; at most kLongestTime. speed > 0.
Nanoseconds at_speed(Nanoseconds time, double speed);

/// "graph", "calibrated-op", ...: the keys of `cost_sources` in output.
const char* name_of(CostSource source);

}  // namespace trainyard
