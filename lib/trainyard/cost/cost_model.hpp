#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/collective_table.hpp"
#include "trainyard/cost/cost_table.hpp"
#include "trainyard/cost/efficiency.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/cost/kernel_costs.hpp"
#include "trainyard/cost/op_cost.hpp"
#include "trainyard/cost/transfer_curve.hpp"
#include "trainyard/cost/type_fit.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The standard costs (the concept OpCosts): how long an op takes on a device, and bytes on a route. Where the graph
/// gives no time of its own, the first of these that knows the op:
///
///     1. table:     measured for this op by name, then for its signature
///     2. fit:       fitted to measured ops of its type
///     3. form:      kernels of the built-in GPU kinds (kernel_costs.hpp), where the op has a signature
///     4. roofline:  max(FLOPs / (peak x efficiency), bytes / (memory bandwidth x efficiency)); the peak is that of the
///                   op's precision, or without forms the device's
///
/// Each is multiplied by the co-run factor of the op's type where ops of several devices run at once in one memory, and
/// the launch overhead is added (forms have the kind's own; what the device's differs by is added). Times are rounded
/// to the nearest nanosecond, halves up.
struct CostModel {
  CostTable table = {};
  EfficiencyTable efficiencies = EfficiencyTable::standard();
  TypeFitTable fits = {};
  /// Fitted efficiencies by device kind: op types that have one of their own there do not ask `efficiencies`.
  std::map<std::string, EfficiencyTable, std::less<>> measured_efficiencies = {};
  std::optional<KernelOptions> kernels = KernelOptions{};  // none: no forms
  CoRunTable co_run = {};
  std::int64_t co_running = 1;  // devices with one memory that run ops at once
  /// What copies through a device's memory add to ops (problem/memory_load.hpp), by device kind and op type; 0 where
  /// nothing was measured.
  std::map<std::string, std::map<std::string, double, std::less<>>, std::less<>> copy_sensitivities = {};
  std::vector<TransferCurve> curves = {};         // RouteClass::curve counts them from 1
  std::vector<CollectiveTable> collectives = {};  // measured
  std::string calibration = {};                   // what the times were measured on, and when; empty: no calibration

  /// A model without forms: data sheets and general efficiencies alone.
  static CostModel roofline();

  /// Nothing where there is nothing to estimate from: the op gives times for other devices only and has neither FLOPs
  /// nor bytes; or the device has no peak (and the op FLOPs) or no memory bandwidth (and the op bytes). An op without
  /// FLOPs, bytes and times takes the launch overhead.
  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const;

  double copy_sensitivity(const Graph& graph, OpId op, const Device& device) const;

  /// latency + bytes / bandwidth: each rounded alone, so that time(n) = time(0) + what n bytes take. Where the route
  /// was measured, the time of its curve, at least the latency, in place of it.
  Nanoseconds latency(const RouteClass& route) const { return route.latency; }
  Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const;
  Evidence transfer_evidence(Bytes bytes, const RouteClass& route) const;

  /// A collective's time from `collectives`.
  std::optional<Nanoseconds> collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                             std::size_t nodes) const;

  /// Whether the devices have the same kind, class, rates and launch overhead.
  bool alike(const Device& a, const Device& b) const;

 private:
  const TransferCurve* curve_of(const RouteClass& route) const {
    return route.curve > 0 && route.curve <= curves.size() ? &curves[route.curve - 1] : nullptr;
  }
};

/// The key of the device's costs: its kind, or its class where it has none.
const std::string& cost_kind(const Device& device);

}  // namespace trainyard
