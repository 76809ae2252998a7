#include "trainyard/cost/cost_model.hpp"

#include <algorithm>

#include "trainyard/cost/costs.hpp"
#include "trainyard/cost/speeds.hpp"

namespace trainyard {
namespace {

/// Nothing if the device lacks a rate that the op needs.
std::optional<Nanoseconds> roofline_time(const Graph& graph, OpId op, const Device& device, FlopsPerSecond peak,
                                         const EfficiencyTable& efficiencies) {
  const Flops flops = graph.flops(op);
  const Bytes bytes = graph.bytes_accessed(op);
  if ((flops.value > 0 && peak.value <= 0) || (bytes.count > 0 && device.memory_bandwidth.value <= 0))
    return std::nullopt;
  const Efficiency efficiency = efficiencies.of(graph.type(op));
  const Nanoseconds computing = flops.value > 0 ? time_for(flops, peak * efficiency.compute) : Nanoseconds{0};
  const Nanoseconds moving =
      bytes.count > 0 ? time_for(bytes, device.memory_bandwidth * efficiency.memory) : Nanoseconds{0};
  return std::max(computing, moving);
}

CostSource source_of(Evidence evidence) {
  if (evidence == Evidence::interpolated) return CostSource::form;
  return evidence == Evidence::transferred ? CostSource::form_transferred : CostSource::form_estimated;
}

}  // namespace

static_assert(OpCosts<CostModel>);

CostModel CostModel::roofline() {
  CostModel model;
  model.kernels.reset();
  return model;
}

std::optional<OpCost> CostModel::op_cost(const Graph& graph, OpId op, const Device& device) const {
  const std::string& kind = cost_kind(device);
  const double slower = co_running > 1 ? co_run.factor(kind, graph.type(op), co_running) : 1;
  const auto launched = [&](Nanoseconds time, CostSource source) {
    time = at_speed(time, 1 / slower);
    return OpCost{std::min(time, kLongestTime - device.launch_overhead) + device.launch_overhead, source};
  };
  if (!table.empty()) {
    if (const auto time = table.find_op(kind, graph.name(op), graph.signature(op)))
      return launched(*time, CostSource::calibrated_op);
    if (const auto time = table.find_signature(kind, graph.signature(op)))
      return launched(*time, CostSource::calibrated_signature);
  }

  const bool nothing_to_estimate_from = graph.flops(op).value <= 0 && graph.bytes_accessed(op).count <= 0;
  if (nothing_to_estimate_from && !graph.given_times(op).empty()) return std::nullopt;
  // Fits do not apply to ops without FLOPs and bytes.
  if (const TypeFit* fit = nothing_to_estimate_from ? nullptr : fits.find(kind, graph.type(op))) {
    const bool inside = fit->evidence(graph.flops(op), graph.bytes_accessed(op)) == Evidence::interpolated;
    return launched(fit->time(graph.flops(op), graph.bytes_accessed(op)),
                    inside ? CostSource::fit : CostSource::fit_outside);
  }
  const auto measured = measured_efficiencies.find(kind);
  const bool fitted = measured != measured_efficiencies.end() && measured->second.has(graph.type(op));
  if (kernels && !fitted)
    if (const auto form = kernel_time(graph, op, device, *kernels)) {
      const Nanoseconds beyond = std::max(nanoseconds_from_seconds(form->seconds) - form->launch, Nanoseconds{0});
      const CostSource source = source_of(form->evidence);
      return form->seconds > 0 && form->launches ? launched(beyond, source)
                                                 : OpCost{at_speed(beyond, 1 / slower), source};
    }
  const FlopsPerSecond peak = kernels && !fitted ? peak_for(graph, op, device, *kernels) : device.peak;
  const auto time = roofline_time(graph, op, device, peak, fitted ? measured->second : efficiencies);
  const CostSource source = fitted                                ? CostSource::calibrated_roofline
                            : is_unknown_operator(graph.type(op)) ? CostSource::unknown_operator
                                                                  : CostSource::roofline;
  return time ? std::optional{launched(*time, source)} : std::nullopt;
}

double CostModel::copy_sensitivity(const Graph& graph, OpId op, const Device& device) const {
  const auto kind = copy_sensitivities.find(cost_kind(device));
  if (kind == copy_sensitivities.end()) return 0;
  const auto known = kind->second.find(graph.type(op));
  return known == kind->second.end() ? 0 : known->second;
}

Nanoseconds CostModel::byte_time(Bytes bytes, const RouteClass& route) const {
  const TransferCurve* curve = curve_of(route);
  if (!curve || bytes.count == 0) return time_for(bytes, route.bandwidth);
  const Nanoseconds whole = nanoseconds_from_seconds(curve->time_ns(bytes) * 1e-9);
  return std::max(whole - route.latency, Nanoseconds{0});
}

Evidence CostModel::transfer_evidence(Bytes bytes, const RouteClass& route) const {
  const TransferCurve* curve = curve_of(route);
  return curve ? curve->evidence(bytes) : Evidence::estimated;
}

std::optional<Nanoseconds> CostModel::collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                                      std::size_t nodes) const {
  if (collectives.empty()) return std::nullopt;
  const auto known = measured_collective(collectives, kind, ranks, nodes, bytes);
  return known ? std::optional{known->time} : std::nullopt;
}

bool CostModel::alike(const Device& a, const Device& b) const {
  return a.kind == b.kind && a.device_class == b.device_class && a.peak == b.peak &&
         a.memory_bandwidth == b.memory_bandwidth && a.launch_overhead == b.launch_overhead;
}

bool CostModel::alike(const Graph& graph, OpId a, OpId b) const {
  return !table.names_ops() && !(kernels && kernels->fused) && graph.flops(a) == graph.flops(b) &&
         graph.bytes_accessed(a) == graph.bytes_accessed(b);
}

const std::string& cost_kind(const Device& device) { return device.kind.empty() ? device.device_class : device.kind; }

}  // namespace trainyard
