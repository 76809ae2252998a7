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
    return OpCost{at_speed(*given, compute_speed), CostSource::graph};

  const auto launched = [&](Nanoseconds time, CostSource source) {
    const Nanoseconds whole = std::min(time, kLongestTime - device.launch_overhead) + device.launch_overhead;
    return OpCost{at_speed(whole, compute_speed), source};
  };
  if (!table.empty()) {
    if (const auto time = table.find_op(device.kind, graph.name(op))) return launched(*time, CostSource::calibrated_op);
    if (const auto time = table.find_signature(device.kind, graph.signature(op)))
      return launched(*time, CostSource::calibrated_signature);
  }

  const bool nothing_to_estimate_from = graph.flops(op).value <= 0 && graph.bytes_accessed(op).count <= 0;
  if (nothing_to_estimate_from && !graph.given_times(op).empty()) return std::nullopt;
  const auto time = roofline(graph, op, device, efficiencies);
  return time ? std::optional{launched(*time, CostSource::roofline)} : std::nullopt;
}

Nanoseconds CostModel::transfer_time(Bytes bytes, const Route& route) const {
  return at_speed(route.latency, link_speed) + at_speed(time_for(bytes, route.bandwidth), link_speed);
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
    case CostSource::roofline:
      return "roofline";
  }
  return "";
}

}  // namespace trainyard
