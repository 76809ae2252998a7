#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/cost_table.hpp"
#include "trainyard/cost/efficiency.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/cost/transfer_curve.hpp"
#include "trainyard/cost/type_fit.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// What a duration rests on, in the order in which the sources are asked.
/// `fit_outside` is a fit of the op's type beyond the FLOPs or bytes that it was fitted to; `calibrated_roofline` a
/// roofline with efficiencies that were fitted to ops of the type.
enum class CostSource : std::uint8_t {
  graph,
  calibrated_op,
  calibrated_signature,
  fit,
  fit_outside,
  calibrated_roofline,
  roofline
};
inline constexpr int kCostSources = 7;

struct OpCost {
  Nanoseconds time;
  CostSource source = CostSource::roofline;

  friend bool operator==(const OpCost&, const OpCost&) = default;
};

/// How long an op takes on a device and bytes take on a route.
///
///     0. graph:     the time that the graph gives for the device's name, kind or class; nothing is added to it
///     1. table:     measured for this op by name, then for its signature        + launch overhead
///     2. fit:       fitted to measured ops of its type                           + launch overhead
///     3. roofline:  max(FLOPs / (peak x efficiency), bytes / (memory bandwidth x efficiency))  + launch overhead
///
/// Where ops of several devices run at once in one memory, 1 to 3 are multiplied by the co-run factor of the op's type.
///
/// What-if speeds divide: `compute_speed = 2` halves every op time (`device_speeds` those of one device), `link_speed =
/// 0.1` makes every transfer ten times as long (latency included). Times are rounded to the nearest nanosecond, halves
/// up, once at speed 1 and once more where a speed is not 1.
struct CostModel {
  CostTable table = {};
  EfficiencyTable efficiencies = EfficiencyTable::standard();
  TypeFitTable fits = {};
  /// Fitted efficiencies by device kind: op types that have one of their own there do not ask `efficiencies`.
  std::map<std::string, EfficiencyTable, std::less<>> measured_efficiencies = {};
  CoRunTable co_run = {};
  std::int64_t co_running = 1;             // how many devices with one memory run ops at once
  std::vector<TransferCurve> curves = {};  // RouteClass::curve counts them from 1
  double compute_speed = 1;
  double link_speed = 1;
  std::map<std::string, double, std::less<>> device_speeds = {};  // beside compute_speed, by device name

  /// Nothing where the op cannot run on the device: it names other device kinds; or it gives times for other devices
  /// only and has neither FLOPs nor bytes to estimate from; or the device has no peak (and the op FLOPs) or no memory
  /// bandwidth (and the op bytes) to estimate with. An op without FLOPs, bytes and times takes the launch overhead.
  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const;

  /// latency + bytes / bandwidth: each rounded (and scaled) alone, so that time(n) = time(0) + what n bytes take. Where
  /// the route was measured, the time of its curve, at least the latency, in place of it.
  Nanoseconds transfer_time(Bytes bytes, const Route& route) const;
  /// The two parts of it.
  Nanoseconds transfer_latency(const RouteClass& route) const;
  Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const;

  /// What the op times of the device are divided by.
  double speed_of(const Device& device) const {
    const auto own = device_speeds.find(device.name);
    return own == device_speeds.end() ? compute_speed : compute_speed * own->second;
  }
};

/// time / speed to the nearest nanosecond, halves up; at most kLongestTime. speed > 0.
Nanoseconds at_speed(Nanoseconds time, double speed);

/// What costs of the device are looked up by: its kind, or its class where it has none.
const std::string& cost_kind(const Device& device);

/// "graph", "calibrated-op", ...: the keys of `cost_sources` in output.
const char* name_of(CostSource source);
Evidence evidence_of(CostSource source);

}  // namespace trainyard
