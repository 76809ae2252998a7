#include "trainyard/simulate/account/usage.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/problem/collective_run.hpp"

namespace trainyard::detail {
namespace {

using SpanRows = CompressedRows<DeviceId, Span>;

std::vector<Span> sorted(std::span<const Span> spans) {
  std::vector<Span> result(spans.begin(), spans.end());
  std::ranges::sort(result, [](const Span& a, const Span& b) { return a.start < b.start; });
  return result;
}

/// Length of the part of the union of `transfers` that no span of `ops` covers. Ops do not overlap.
Nanoseconds exposed(std::span<const Span> ops, std::span<const Span> transfers) {
  const auto busy = sorted(ops), moving = sorted(transfers);
  Nanoseconds total{0};
  std::size_t next_op = 0;
  Nanoseconds counted{0};  // everything before this time is counted
  for (const Span& transfer : moving) {
    Nanoseconds at = std::max(counted, transfer.start);
    while (at < transfer.end) {
      while (next_op < busy.size() && busy[next_op].end <= at) ++next_op;
      const Nanoseconds idle_until = next_op < busy.size() ? std::min(busy[next_op].start, transfer.end) : transfer.end;
      if (idle_until > at) total += idle_until - at;
      at = next_op < busy.size() ? std::max(idle_until, busy[next_op].end) : idle_until;
      if (idle_until == transfer.end) at = transfer.end;
    }
    counted = std::max(counted, transfer.end);
  }
  return total;
}

/// Length of the union of the spans.
Nanoseconds covered(std::span<const Span> spans) {
  Nanoseconds total{0}, until{0};
  for (const Span& span : sorted(spans)) {
    if (span.end <= until) continue;
    total += span.end - std::max(until, span.start);
    until = span.end;
  }
  return total;
}

Bytes saturating_sum(Bytes a, Bytes b) {
  constexpr Bytes kMost{std::numeric_limits<std::int64_t>::max()};
  return a > kMost - b ? kMost : a + b;
}

}  // namespace

void account_usage(const Problem& problem, const Placement& placement, Timeline& timeline) {
  const Cluster& cluster = problem.cluster();
  std::vector<std::pair<DeviceId, Span>> ops, transfers;
  std::vector<std::pair<ChannelId, Span>> shared;
  for (const OpId op : problem.ops()) {
    const Span span = timeline.ops[op];
    timeline.devices[placement[op]].busy += span.end - span.start;
    if (span.end > span.start) ops.emplace_back(placement[op], span);
  }
  const auto hold = [&](ChannelId channel, const Transfer& transfer) {
    if (cluster.channel(channel).fair)
      shared.push_back({channel, {transfer.start, transfer.end}});
    else
      timeline.channels[channel].busy += transfer.end - transfer.start;
  };
  const auto add_bytes = [&](DeviceId from, DeviceId to, Bytes bytes) {
    for (const ChannelId channel : cluster.route(from, to).channels)
      timeline.channels[channel].bytes = saturating_sum(timeline.channels[channel].bytes, bytes);
  };
  const Graph& graph = problem.graph();
  CollectiveRuns runs{problem};
  IdMap<OpId, std::uint8_t> counted(graph.has_collectives() ? graph.op_count() : 0, 0);
  for (const Transfer& transfer : timeline.transfers) {
    const OpId producer = graph.producer(transfer.tensor);
    if (transfer.to != placement[producer]) {
      for (const ChannelId channel : cluster.route(transfer.from, transfer.to).channels) hold(channel, transfer);
      add_bytes(transfer.from, transfer.to, transfer.bytes);
    } else if (!std::exchange(counted[graph.member_of(producer)], std::uint8_t{1})) {  // once for all its parts
      const CollectiveRun& run = runs.of(graph.member_of(producer), placement);
      for (const ChannelId channel : run.channels) hold(channel, transfer);
      for (const CollectiveRun::Hop& hop : run.hops) add_bytes(hop.from, hop.to, hop.bytes);
    }
    if (transfer.end == transfer.start) continue;
    const Span span{transfer.start, transfer.end};
    transfers.emplace_back(transfer.from, span);
    transfers.emplace_back(transfer.to, span);
    for (const DeviceId device : transfer.also_to) transfers.emplace_back(device, span);
  }
  if (!shared.empty()) {
    const CompressedRows<ChannelId, Span> on_channel(cluster.channel_count(), shared);
    for (const ChannelId channel : cluster.channels()) timeline.channels[channel].busy += covered(on_channel[channel]);
  }
  const SpanRows ops_of(problem.device_count(), ops), transfers_of(problem.device_count(), transfers);
  for (const DeviceId device : problem.devices())
    timeline.devices[device].exposed_communication = exposed(ops_of[device], transfers_of[device]);
}

}  // namespace trainyard::detail
