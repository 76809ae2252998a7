#include "trainyard/place/fastt/learned_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainyard/cost/cost_model.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

constexpr double kInstant = 1e18;  // bytes and FLOPs a second, for ops and links that take no time

Nanoseconds rounded(double ns) { return Nanoseconds{static_cast<std::int64_t>(std::floor(ns + 0.5))}; }

}  // namespace

LearnedCosts::LearnedCosts(const Problem& problem) {
  for (const DeviceId id : problem.devices()) {
    const Device& device = problem.cluster().device(id);
    key_.push_back(device.kind.empty() ? device.name : device.kind);
  }
}

LearnedCosts::Change LearnedCosts::add(const StepProfile& profile) {
  Change change;
  std::map<std::pair<std::string, std::string>, double> before;
  for (const auto& [op, device, time] : profile.ops) {
    auto& mean = ops_[{key_[device], op}];
    before.try_emplace({key_[device], op}, mean.count == 0 ? -1.0 : mean.value());
    mean.sum += static_cast<double>(time.count);
    ++mean.count;
  }
  for (const auto& [entry, old] : before) {
    if (old < 0) {
      ++change.entries;
      continue;
    }
    const double now = ops_[entry].value();
    if (now != old) change.largest = std::max(change.largest, std::abs(now - old) / std::max(now, old));
  }
  for (const auto& transfer : profile.transfers) {
    Sums& sums = transfers_[{transfer.from, transfer.to}];
    const auto bytes = static_cast<double>(transfer.bytes.count), time = static_cast<double>(transfer.time.count);
    sums.least = sums.count == 0 ? transfer.bytes.count : std::min(sums.least, transfer.bytes.count);
    sums.most = std::max(sums.most, transfer.bytes.count);
    sums.count += 1;
    sums.bytes += bytes;
    sums.time += time;
    sums.bytes_squared += bytes * bytes;
    sums.bytes_time += bytes * time;
  }
  return change;
}

std::optional<Nanoseconds> LearnedCosts::op_time(const std::string& op, DeviceId device) const {
  const auto at = ops_.find({key_[device], op});
  if (at == ops_.end()) return std::nullopt;
  return rounded(at->second.value());
}

std::optional<LearnedCosts::Line> LearnedCosts::line(DeviceId from, DeviceId to) const {
  const auto at = transfers_.find({from, to});
  if (at == transfers_.end()) return std::nullopt;
  const Sums& s = at->second;
  if (s.most == 0) return Line{s.time / s.count, 0};
  const Line origin{0, s.bytes_time / s.bytes_squared};
  if (s.least == s.most) return origin;
  const double slope = (s.count * s.bytes_time - s.bytes * s.time) / (s.count * s.bytes_squared - s.bytes * s.bytes);
  if (slope < 0) return Line{s.time / s.count, 0};
  const double latency = (s.time - slope * s.bytes) / s.count;
  return latency < 0 ? origin : Line{latency, slope};
}

Problem LearnedCosts::believed(const Problem& problem, Checkpoint checkpoint) const {
  GraphBuilder builder{problem.graph().name()};
  for (const OpId op : problem.ops()) {
    checkpoint(problem.device_count());
    OpSpec spec = spec_of(problem.graph(), op);
    spec.times.clear();
    spec.signature.clear();
    spec.flops = Flops{0};
    spec.bytes_accessed = Bytes{0};
    const auto devices = problem.devices();
    const bool anywhere =
        std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return problem.can_run(op, device); });
    spec.device_kinds.clear();
    if (!anywhere)
      for (const DeviceId device : problem.devices())
        if (problem.can_run(op, device)) spec.device_kinds.push_back(problem.cluster().device(device).name);
    builder.add(spec);
  }

  ClusterSpec cluster{.name = problem.cluster().name(), .devices = problem.cluster().spec().devices};
  for (const DeviceId id : problem.devices()) {
    Device& device = cluster.devices[id.index()];
    device.kind = key_[id];
    device.peak = FlopsPerSecond{kInstant};
    device.memory_bandwidth = BytesPerSecond{kInstant};
    device.launch_overhead = Nanoseconds{0};
  }
  for (const DeviceId from : problem.devices())
    for (const DeviceId to : problem.devices()) {
      if (from == to) continue;
      checkpoint(1);
      const Line known = line(from, to).value_or(Line{});
      Link link{.name = fmt::format("{}-{}", from.index(), to.index()),
                .from = problem.cluster().device(from).name,
                .to = problem.cluster().device(to).name,
                .bandwidth = BytesPerSecond{known.ns_per_byte > 1e9 / kInstant ? 1e9 / known.ns_per_byte : kInstant},
                .latency = rounded(known.latency_ns),
                .sharing = Sharing::none};
      cluster.routes.push_back({link.from, link.to, {link.name}});
      cluster.links.push_back(std::move(link));
    }

  CostModel costs;
  for (const auto& [entry, mean] : ops_) costs.table.add_op(entry.first, entry.second, rounded(mean.value()));
  return {std::move(builder).build(), make_cluster(std::move(cluster)), costs};
}

}  // namespace trainyard
