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

/// The standard costs (concept OpCosts): times of ops on devices, and of bytes on routes. If the graph gives no time
/// for an op, it comes from the first of these that knows the op:
///
///     1. table:     measured for this op by name, then for its signature
///     2. fit:       fitted to measured ops of its type
///     3. form:      kernels of the built-in GPU kinds (kernel_costs.hpp), if the op has a signature and its type no
///                   measured efficiency
///     4. roofline:  max(FLOPs / (peak x efficiency), bytes / (memory bandwidth x efficiency)), with the peak at the
///                   op's precision, or without forms the device's peak
///
/// If several devices with one memory run ops at once, the time is multiplied by the co-run factor of the op's type.
/// The device's launch overhead is added; for forms, it replaces their kind's own. Times are rounded to the nearest
/// nanosecond, halves up.
struct CostModel {
  CostTable table = {};
  EfficiencyTable efficiencies = EfficiencyTable::standard();
  TypeFitTable fits = {};
  /// Fitted efficiencies by device kind. For the op types in them, they replace `efficiencies` and forms.
  std::map<std::string, EfficiencyTable, std::less<>> measured_efficiencies = {};
  std::optional<KernelOptions> kernels = KernelOptions{};  // none: no forms
  CoRunTable co_run = {};
  std::int64_t co_running = 1;  // devices with one memory that run ops at once
  /// Slowdown of ops by copies through a device's memory (problem/memory_load.hpp), by device kind and op type; 0 if
  /// not measured.
  std::map<std::string, std::map<std::string, double, std::less<>>, std::less<>> copy_sensitivities = {};
  std::vector<TransferCurve> curves = {};         // RouteClass::curve counts them from 1
  std::vector<CollectiveTable> collectives = {};  // measured
  std::string calibration = {};                   // the measured machine and date; empty: no calibration

  /// A model without forms: only data sheets and general efficiencies.
  static CostModel roofline();

  /// Nothing if no estimate is possible: the op has times for other devices only, and neither FLOPs nor bytes; or it
  /// has FLOPs and the device no peak; or it has bytes and the device no memory bandwidth. An op without FLOPs, bytes
  /// and times takes the launch overhead.
  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const;

  double copy_sensitivity(const Graph& graph, OpId op, const Device& device) const;

  /// A transfer takes latency + bytes / bandwidth, each rounded separately, so that time(n) = time(0) + byte_time(n).
  /// If the route was measured, it takes the time of its curve instead, but at least the latency.
  Nanoseconds latency(const RouteClass& route) const { return route.latency; }
  Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const;
  Evidence transfer_evidence(Bytes bytes, const RouteClass& route) const;

  /// A collective's time from `collectives`; nothing if no table applies.
  std::optional<Nanoseconds> collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                             std::size_t nodes) const;

  /// Whether the devices have the same kind, class, rates and launch overhead.
  bool alike(const Device& a, const Device& b) const;
  /// Whether ops of equal type and signature have equal FLOPs and bytes, and neither names nor neighbours decide.
  bool alike(const Graph& graph, OpId a, OpId b) const;

 private:
  const TransferCurve* curve_of(const RouteClass& route) const {
    return route.curve > 0 && route.curve <= curves.size() ? &curves[route.curve - 1] : nullptr;
  }
};

/// The key of the device's costs: its kind, or its class if it has none.
const std::string& cost_kind(const Device& device);

}  // namespace trainyard
