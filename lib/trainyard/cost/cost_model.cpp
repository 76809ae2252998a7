#include "trainyard/cost/cost_model.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace trainyard {
namespace {

bool allows(const Graph& graph, OpId op, const Device& device) {
  const auto kinds = graph.device_kinds(op);
  return kinds.empty() || std::ranges::any_of(kinds, [&](const std::string& kind) {
           return kind == device.name || (!device.kind.empty() && kind == device.kind) ||
                  (!device.device_class.empty() && kind == device.device_class);
         });
}

std::optional<Nanoseconds> given_time(const Graph& graph, OpId op, const Device& device) {
  for (const std::string* name : {&device.name, &device.kind, &device.device_class}) {
    if (name->empty()) continue;
    for (const GivenTime& given : graph.given_times(op))
      if (given.on == *name) return given.time;
  }
  return std::nullopt;
}

/// Nothing where the device lacks a rate that the op needs.
std::optional<Nanoseconds> roofline(const Graph& graph, OpId op, const Device& device,
                                    const EfficiencyTable& efficiencies) {
  const Flops flops = graph.flops(op);
  const Bytes bytes = graph.bytes_accessed(op);
  if ((flops.value > 0 && device.peak.value <= 0) || (bytes.count > 0 && device.memory_bandwidth.value <= 0))
    return std::nullopt;
  const Efficiency efficiency = efficiencies.of(graph.type(op));
  const Nanoseconds computing = flops.value > 0 ? time_for(flops, device.peak * efficiency.compute) : Nanoseconds{0};
  const Nanoseconds moving =
      bytes.count > 0 ? time_for(bytes, device.memory_bandwidth * efficiency.memory) : Nanoseconds{0};
  return std::max(computing, moving);
}

}  // namespace

Nanoseconds at_speed(Nanoseconds time, double speed) {
  assert(speed > 0);
  if (speed == 1) return time;
  const double scaled = std::floor(static_cast<double>(time.count) / speed + 0.5);
  return scaled >= static_cast<double>(kLongestTime.count) ? kLongestTime
                                                           : Nanoseconds{static_cast<std::int64_t>(scaled)};
}

std::optional<OpCost> CostModel::op_cost(const Graph& graph, OpId op, const Device& device) const {
  if (!allows(graph, op, device)) return std::nullopt;
  if (const auto given = given_time(graph, op, device))
    return OpCost{at_speed(*given, speed_of(device)), CostSource::graph};

  const std::string& kind = cost_kind(device);
  const double slower = co_running > 1 ? co_run.factor(kind, graph.type(op), co_running) : 1;
  const auto launched = [&](Nanoseconds time, CostSource source) {
    time = at_speed(time, 1 / slower);
    const Nanoseconds whole = std::min(time, kLongestTime - device.launch_overhead) + device.launch_overhead;
    return OpCost{at_speed(whole, speed_of(device)), source};
  };
  if (!table.empty()) {
    if (const auto time = table.find_op(kind, graph.name(op), graph.signature(op)))
      return launched(*time, CostSource::calibrated_op);
    if (const auto time = table.find_signature(kind, graph.signature(op)))
      return launched(*time, CostSource::calibrated_signature);
  }

  const bool nothing_to_estimate_from = graph.flops(op).value <= 0 && graph.bytes_accessed(op).count <= 0;
  if (nothing_to_estimate_from && !graph.given_times(op).empty()) return std::nullopt;
  // A fit says nothing of an op of which neither FLOPs nor bytes are known.
  if (const TypeFit* fit = nothing_to_estimate_from ? nullptr : fits.find(kind, graph.type(op))) {
    const bool inside = fit->evidence(graph.flops(op), graph.bytes_accessed(op)) == Evidence::interpolated;
    return launched(fit->time(graph.flops(op), graph.bytes_accessed(op)),
                    inside ? CostSource::fit : CostSource::fit_outside);
  }
  const auto measured = measured_efficiencies.find(kind);
  const bool fitted = measured != measured_efficiencies.end() && measured->second.has(graph.type(op));
  const auto time = roofline(graph, op, device, fitted ? measured->second : efficiencies);
  return time ? std::optional{launched(*time, fitted ? CostSource::calibrated_roofline : CostSource::roofline)}
              : std::nullopt;
}

Nanoseconds CostModel::transfer_time(Bytes bytes, const Route& route) const {
  const RouteClass rates{route.latency, route.bandwidth, route.curve};
  return transfer_latency(rates) + byte_time(bytes, rates);
}

Nanoseconds CostModel::transfer_latency(const RouteClass& route) const { return at_speed(route.latency, link_speed); }

Nanoseconds CostModel::byte_time(Bytes bytes, const RouteClass& route) const {
  if (route.curve == 0 || route.curve > curves.size() || bytes.count == 0)
    return at_speed(time_for(bytes, route.bandwidth), link_speed);
  const Nanoseconds whole = nanoseconds_from_seconds(curves[route.curve - 1].time_ns(bytes) * 1e-9);
  return at_speed(std::max(whole - route.latency, Nanoseconds{0}), link_speed);
}

const char* name_of(CostSource source) {
  switch (source) {
    case CostSource::graph:
      return "graph";
    case CostSource::calibrated_op:
      return "calibrated-op";
    case CostSource::calibrated_signature:
      return "calibrated-signature";
    case CostSource::fit:
      return "fit";
    case CostSource::fit_outside:
      return "fit-outside";
    case CostSource::calibrated_roofline:
      return "calibrated-roofline";
    case CostSource::roofline:
      return "roofline";
  }
  return "";
}

Evidence evidence_of(CostSource source) {
  switch (source) {
    case CostSource::graph:
      return Evidence::given;
    case CostSource::calibrated_op:
    case CostSource::calibrated_signature:
      return Evidence::measured;
    case CostSource::fit:
      return Evidence::interpolated;
    case CostSource::fit_outside:
      return Evidence::transferred;
    case CostSource::calibrated_roofline:
    case CostSource::roofline:
      break;
  }
  return Evidence::estimated;
}

const std::string& cost_kind(const Device& device) { return device.kind.empty() ? device.device_class : device.kind; }

}  // namespace trainyard
