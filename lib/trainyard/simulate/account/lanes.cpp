#include "trainyard/simulate/account/lanes.hpp"

#include <utility>

#include "trainyard/core/sort_by.hpp"

namespace trainyard {
namespace {

/// Puts the direction first: it distinguishes the two lanes of a full-duplex link even if the rest is cut off.
std::string channel_name(const Channel& channel) {
  if (channel.from.empty() || channel.to.empty()) return channel.name;
  return channel.from + " → " + channel.to + "  " + channel.name;
}

void add(Lane& lane, Span span, std::size_t index) {
  (span.start == span.end ? lane.instants : lane.spans).push_back(index);
}

/// Distributes transfers that may overlap over as few lanes as possible, from lane `first` on.
void add_lanes(std::vector<Lane>& lanes, const Timeline& timeline, const Lane& first,
               std::vector<std::size_t> transfers) {
  sort_by(transfers, [&](std::size_t i) { return timeline.transfers[i].start; });
  const std::size_t base = lanes.size();
  std::vector<Nanoseconds> free_at;
  for (const std::size_t index : transfers) {
    const Transfer& transfer = timeline.transfers[index];
    const bool instant = transfer.start == transfer.end;
    std::size_t at = 0;
    while (!instant && at < free_at.size() && free_at[at] > transfer.start) ++at;
    if (at == free_at.size()) {
      free_at.push_back(Nanoseconds{0});
      lanes.push_back(first);
      if (at > 0) lanes.back().name += " " + std::to_string(at + 1);
    }
    if (!instant) free_at[at] = transfer.end;
    add(lanes[base + at], {transfer.start, transfer.end}, index);
  }
}

}  // namespace

std::vector<Lane> lanes(const Problem& problem, const Placement& placement, const Timeline& timeline) {
  const Cluster& cluster = problem.cluster();
  std::vector<Lane> result;
  for (const DeviceId device : problem.devices())
    result.push_back({Lane::Kind::device, device, ChannelId::none(), cluster.device(device).name, {}, {}});
  for (const OpId op : problem.ops()) add(result[placement[op].index()], timeline.ops[op], op.index());
  for (Lane& lane : result)
    for (auto* const list : {&lane.spans, &lane.instants})
      sort_by(*list, [&](std::size_t i) { return timeline.ops[OpId{i}].start; });

  IdMap<ChannelId, std::vector<std::size_t>> carried(cluster.channel_count());
  IdMap<DeviceId, std::vector<std::size_t>> unshared(problem.device_count());
  for (std::size_t i = 0; i < timeline.transfers.size(); ++i) {
    const Transfer& transfer = timeline.transfers[i];
    const Route route = cluster.route(transfer.from, transfer.to);
    for (const ChannelId channel : route.channels) carried[channel].push_back(i);
    if (route.channels.empty()) unshared[transfer.from].push_back(i);
  }
  for (const ChannelId channel : cluster.channels()) {
    const Lane first{Lane::Kind::channel, DeviceId::none(), channel, channel_name(cluster.channel(channel)), {}, {}};
    if (carried[channel].empty()) result.push_back(first);
    add_lanes(result, timeline, first, std::move(carried[channel]));
  }
  for (const DeviceId device : problem.devices())
    add_lanes(
        result, timeline,
        {Lane::Kind::free, device, ChannelId::none(), "from " + cluster.device(device).name + ", unshared", {}, {}},
        std::move(unshared[device]));
  return result;
}

}  // namespace trainyard
