#include "trainyard/simulate/model/fair_flows.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace trainyard::detail {

FairFlows::FairFlows(const Cluster& cluster, std::size_t flows) : channels_(cluster.channel_count()), flows_(flows) {
  double largest = 0;
  for (const ChannelId id : cluster.channels())
    if (cluster.channel(id).fair) largest = std::max(largest, cluster.channel(id).bandwidth.value);
  shift_ = 62 - std::ilogb(largest);
  for (const ChannelId id : cluster.channels())
    if (cluster.channel(id).fair) channels_[id].bandwidth = units(cluster.channel(id).bandwidth);
}

std::int64_t FairFlows::units(BytesPerSecond bandwidth) const {
  constexpr double kMost = 0x1.fffffffffffffp62;  // a route over several channels can exceed the largest channel
  // Scaling by 2^n is exact; the cast rounds down.
  return static_cast<std::int64_t>(std::min(kMost, std::ldexp(bandwidth.value, shift_)));
}

void FairFlows::touch(ChannelId channel) {
  if (channels_[channel].touched) return;
  channels_[channel].touched = true;
  touched_.push_back(channel);
}

void FairFlows::begin(TransferId id, Nanoseconds alone, BytesPerSecond slowest, std::span<const ChannelId> channels,
                      std::span<const ChannelId> load, std::int64_t now) {
  Flow& flow = flows_[id];
  flow = {};
  flow.channels = load;
  flow.limit = units(slowest);
  flow.since = now;
  std::int64_t passed = 0;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    passed = i > 0 && channels[i] == channels[i - 1] ? passed + 1 : 1;
    const Line& line = channels_[channels[i]];
    if (line.bandwidth > 0) flow.limit = std::min(flow.limit, line.bandwidth / passed);
  }
  for (const ChannelId channel : load)
    if (Line& line = channels_[channel]; line.bandwidth > 0) {
      line.flows.push_back(id);
      touch(channel);
    }
  flow.left = static_cast<Wide>(alone.count) * flow.limit;
}

void FairFlows::end(TransferId id) {
  for (const ChannelId channel : flows_[id].channels)
    if (Line& line = channels_[channel]; line.bandwidth > 0) {
      *std::ranges::find(line.flows, id) = line.flows.back();
      line.flows.pop_back();
      touch(channel);
    }
  flows_[id].end = kUnknown;
}

std::span<const FairFlows::End> FairFlows::update(std::int64_t now) {
  ends_.clear();
  ++search_;
  for (const ChannelId channel : touched_) {
    channels_[channel].touched = false;
    // Each component separately: a flow that connected touched channels may have just ended.
    if (channels_[channel].seen == search_ || channels_[channel].flows.empty()) continue;
    find_component(channel);
    advance(now);
    fill();
    find_first_ends();
  }
  touched_.clear();
  return ends_;
}

void FairFlows::find_component(ChannelId from) {
  component_channels_.assign(1, from);
  component_flows_.clear();
  channels_[from].seen = search_;
  for (std::size_t i = 0; i < component_channels_.size(); ++i)
    for (const TransferId id : channels_[component_channels_[i]].flows) {
      Flow& flow = flows_[id];
      if (flow.seen == search_) continue;
      flow.seen = search_;
      component_flows_.push_back(id);
      for (const ChannelId channel : flow.channels)
        if (Line& line = channels_[channel]; line.bandwidth > 0 && line.seen != search_) {
          line.seen = search_;
          component_channels_.push_back(channel);
        }
    }
}

void FairFlows::advance(std::int64_t now) {
  for (const TransferId id : component_flows_) {
    Flow& flow = flows_[id];
    flow.left -= static_cast<Wide>(flow.rate) * (now - flow.since);
    flow.since = now;
  }
}

void FairFlows::fill() {
  ++filling_;
  offers_.clear();
  const auto share = [](const Line& line) { return line.rest / line.unrated; };
  for (const ChannelId id : component_channels_) {
    Line& line = channels_[id];
    line.rest = line.bandwidth;
    line.unrated = static_cast<std::uint32_t>(line.flows.size());
    offers_.emplace_back(share(line), id.index());
  }
  for (const TransferId id : component_flows_) {
    std::int64_t narrowest = std::numeric_limits<std::int64_t>::max();
    for (const ChannelId channel : flows_[id].channels)
      if (const std::int64_t bandwidth = channels_[channel].bandwidth; bandwidth > 0)
        narrowest = std::min(narrowest, bandwidth);
    // No channel offers more than its bandwidth.
    if (flows_[id].limit < narrowest) offers_.emplace_back(flows_[id].limit, channels_.size() + id.index());
  }
  std::ranges::make_heap(offers_, std::greater{});
  std::size_t unrated = component_flows_.size();
  const auto rate = [&](TransferId id, std::int64_t offered) {
    if (flows_[id].rated == filling_) return;
    rate_flow(id, offered);
    --unrated;
  };
  while (unrated > 0) {
    const std::int64_t offered = offers_.front().first;
    least_.clear();
    while (!offers_.empty() && offers_.front().first == offered) {
      std::ranges::pop_heap(offers_, std::greater{});
      const std::size_t what = offers_.back().second;
      offers_.pop_back();
      if (what >= channels_.size()) {
        least_.push_back(what);
        continue;
      }
      const Line& line = channels_[ChannelId{what}];
      if (line.unrated == 0) continue;
      // A share only grows while flows with lower rates are assigned, so an outdated one is too small and is offered
      // again.
      if (const std::int64_t current = share(line); current > offered) {
        offers_.emplace_back(current, what);
        std::ranges::push_heap(offers_, std::greater{});
      } else {
        least_.push_back(what);
      }
    }
    for (const std::size_t what : least_) {
      if (what >= channels_.size())
        rate(TransferId{what - channels_.size()}, offered);
      else
        for (const TransferId id : channels_[ChannelId{what}].flows) rate(id, offered);
    }
  }
}

void FairFlows::rate_flow(TransferId id, std::int64_t rate) {
  Flow& flow = flows_[id];
  flow.rate = rate;
  flow.rated = filling_;
  for (const ChannelId channel : flow.channels)
    if (Line& line = channels_[channel]; line.bandwidth > 0) {
      line.rest -= rate;
      --line.unrated;
    }
}

void FairFlows::find_first_ends() {
  // Estimates first, because a wide division costs more than everything else here.
  const auto estimate = [](const Flow& flow) {
    return static_cast<double>(flow.left) / static_cast<double>(flow.rate);
  };
  double least = std::numeric_limits<double>::infinity();
  for (const TransferId id : component_flows_) least = std::min(least, estimate(flows_[id]));
  const double most = least * (1 + 1e-9) + 2;  // covers the error of the estimates and a nanosecond of rounding

  const std::size_t first = ends_.size();
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (const TransferId id : component_flows_) {
    Flow& flow = flows_[id];
    if (estimate(flow) > most) {
      flow.end = kUnknown;  // the rates of the component are recomputed when its first flow ends
      continue;
    }
    const auto steps = static_cast<std::int64_t>((2 * flow.left + flow.rate) / (2 * static_cast<Wide>(flow.rate)));
    ends_.push_back({flow.since + std::max<std::int64_t>(1, steps), id});
    earliest = std::min(earliest, ends_.back().time);
  }
  std::size_t kept = first;
  for (std::size_t i = first; i < ends_.size(); ++i) {
    const End found = ends_[i];
    std::int64_t& end = flows_[found.flow].end;
    const bool is_new = end != earliest;
    end = found.time == earliest ? earliest : kUnknown;
    if (end == earliest && is_new) ends_[kept++] = found;
  }
  ends_.resize(kept);
}

}  // namespace trainyard::detail
