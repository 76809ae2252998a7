#include "trainyard/cost/calibration.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace trainyard {
namespace {

constexpr std::size_t kMostDevicesByKind = 256;

/// Number of the link's curve in CostModel::curves. Each link has two curves, for its own devices and for others of
/// their kinds, which differ in their evidence.
std::uint32_t curve_number(const Calibration& calibration, const CalibratedLink& link, bool same_devices) {
  return static_cast<std::uint32_t>(2 * (&link - calibration.links.data()) + (same_devices ? 1 : 2));
}

MeasuredRoute measured_route(const Calibration& calibration, const CalibratedLink& link, bool same_devices,
                             const std::string& from, const std::string& to) {
  const TransferCurve curve{link.segments, same_devices};
  return {from, to, curve.latency(), curve.bandwidth(), curve_number(calibration, link, same_devices)};
}

/// Replaces `best` if the link is better for predictions: only links measured alone, pinned ones first, else the first.
void take_better(const CalibratedLink*& best, const CalibratedLink& link) {
  if (link.beside.empty() && !link.segments.empty() && (!best || (link.pinned && !best->pinned))) best = &link;
}

/// The link that represents all routes between two kinds; null if links between them have different paths.
const CalibratedLink* link_of_kinds(const Calibration& calibration, const std::string& from, const std::string& to) {
  const auto between = [&](const CalibratedLink& link) { return link.from_kind == from && link.to_kind == to; };
  const CalibratedLink* best = nullptr;
  for (const CalibratedLink& link : calibration.links)
    if (between(link)) take_better(best, link);
  const bool one_path = best && std::ranges::all_of(calibration.links, [&](const CalibratedLink& link) {
                          return !between(link) || link.path == best->path;
                        });
  return one_path ? best : nullptr;
}

/// Pairs of kinds between which all routes of the cluster are alike.
std::set<std::pair<std::string, std::string>> alike_kinds(const ClusterSpec& spec) {
  const Cluster cluster = make_cluster(spec);
  std::map<std::pair<std::string, std::string>, std::set<std::uint32_t>> classes;
  for (const DeviceId from : cluster.devices())
    for (const DeviceId to : cluster.devices())
      if (from != to)
        classes[{cost_kind(cluster.device(from)), cost_kind(cluster.device(to))}].insert(cluster.route_class(from, to));
  std::set<std::pair<std::string, std::string>> alike;
  for (const auto& [kinds, routes] : classes)
    if (routes.size() == 1) alike.insert(kinds);
  return alike;
}

/// Sets the ports of a fabric from the calibration's link between devices of the fabric's kind. A fabric has no times
/// by transfer size, and the calibration, which is of one machine, has no routes between hosts.
void calibrate_fabric(ClusterSpec& spec, const Calibration& calibration, CalibrationMatch& match) {
  FabricSpec& fabric = *spec.fabric;
  if (fabric.devices_per_host < 2 || !fabric.torus.empty()) return;
  const std::string& kind = cost_kind(spec.devices.front());
  if (std::ranges::any_of(spec.devices, [&](const Device& device) { return cost_kind(device) != kind; })) return;
  const CalibratedLink* link = link_of_kinds(calibration, kind, kind);
  if (link == nullptr) return;
  const MeasuredRoute route = measured_route(calibration, *link, false, "", "");
  fabric.port_latency = Nanoseconds{(route.latency.count + 1) / 2};  // a route within a host passes two ports
  fabric.port_bandwidth = route.bandwidth;
  match.routes_by_kind += fabric.device_count() * (fabric.devices_per_host - 1);
}

void calibrate_routes(ClusterSpec& spec, const Calibration& calibration, CalibrationMatch& match) {
  if (calibration.links.empty() || spec.devices.size() < 2) return;
  if (spec.fabric) return calibrate_fabric(spec, calibration, match);
  const bool small = spec.devices.size() <= kMostDevicesByKind;
  std::map<std::pair<std::string, std::string>, const CalibratedLink*> by_name;
  for (const CalibratedLink& link : calibration.links) take_better(by_name[{link.from, link.to}], link);
  const auto alike = small ? alike_kinds(spec) : std::set<std::pair<std::string, std::string>>{};
  std::map<std::pair<std::string, std::string>, const CalibratedLink*> by_kind;
  for (const auto& [from, to] : alike)
    if (const CalibratedLink* link = link_of_kinds(calibration, from, to)) by_kind[{from, to}] = link;
  const auto measured = [&](const Device& from, const Device& to) {
    const auto found = by_name.find({from.name, to.name});
    if (found == by_name.end() || !found->second) return false;
    const CalibratedLink& link = *found->second;
    const bool kinds_agree = (link.from_kind.empty() || link.from_kind == cost_kind(from)) &&
                             (link.to_kind.empty() || link.to_kind == cost_kind(to));
    if (!kinds_agree) return false;
    spec.measured.push_back(measured_route(calibration, link, true, from.name, to.name));
    ++match.routes;
    return true;
  };
  const std::vector<Device> devices = spec.devices;
  if (by_kind.empty()) {  // by name only, as in large clusters
    std::map<std::string, const Device*, std::less<>> named;
    for (const Device& device : devices) named[device.name] = &device;
    for (const auto& [pair, link] : by_name) {
      const auto from = named.find(pair.first), to = named.find(pair.second);
      if (from != named.end() && to != named.end() && from != to) measured(*from->second, *to->second);
    }
    return;
  }
  for (const Device& from : devices) {
    for (const Device& to : devices) {
      if (from.name == to.name || measured(from, to)) continue;
      const auto other = by_kind.find({cost_kind(from), cost_kind(to)});
      if (other == by_kind.end()) continue;
      spec.measured.push_back(measured_route(calibration, *other->second, false, from.name, to.name));
      ++match.routes_by_kind;
    }
  }
}

}  // namespace

CostModel cost_model(const Calibration& calibration) {
  CostModel costs;
  // Later entries replace earlier ones, so the best mode for predictions comes last.
  for (const MeasureMode mode : {MeasureMode::cold, MeasureMode::hot, MeasureMode::step}) {
    for (const CalibratedOp& op : calibration.ops) {
      if (op.mode != mode) continue;
      if (!op.op.empty())
        costs.table.add_op(op.device_kind, op.op, op.mean, op.signature);
      else if (!op.signature.empty())
        costs.table.add_signature(op.device_kind, op.signature, op.mean);
    }
  }
  for (const CalibratedFit& fit : calibration.fits) costs.fits.set(fit.device_kind, fit.type, fit.fit);
  for (const CalibratedEfficiency& entry : calibration.efficiencies)
    costs.measured_efficiencies[entry.device_kind].set(entry.type, entry.efficiency);
  for (const CoRunFactor& entry : calibration.co_run)
    costs.co_run.set(entry.device_kind, entry.type, entry.devices, entry.factor);
  for (const CopySensitivity& entry : calibration.interference)
    costs.copy_sensitivities[entry.device_kind][entry.type] = entry.sensitivity;
  for (const CalibratedLink& link : calibration.links)
    for (const bool same_devices : {true, false}) costs.curves.push_back({link.segments, same_devices});
  costs.collectives = calibration.collectives;
  for (const std::string* part : {&calibration.name, &calibration.host.cpu, &calibration.created})
    if (!part->empty()) costs.calibration += (costs.calibration.empty() ? "" : ", ") + *part;
  return costs;
}

CalibratedCluster calibrated(ClusterSpec spec, const Calibration& calibration) {
  CalibrationMatch matched;
  for (Device& device : spec.devices) {
    const std::string& kind = cost_kind(device);
    const auto known = std::ranges::find(calibration.devices, kind, &CalibratedDevice::kind);
    if (known == calibration.devices.end()) {
      if (std::ranges::find(matched.unmatched, kind) == matched.unmatched.end()) matched.unmatched.push_back(kind);
      continue;
    }
    ++matched.devices;
    device.launch_overhead = known->launch_overhead.value_or(Nanoseconds{0});
    if (known->gap) device.gap = *known->gap;
    if (known->peak.value > 0) device.peak = known->peak;
    if (known->memory_bandwidth.value > 0) device.memory_bandwidth = known->memory_bandwidth;
  }
  calibrate_routes(spec, calibration, matched);
  return {std::move(spec), std::move(matched)};
}

}  // namespace trainyard
