#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// Rates and ends of the transfers in flight on fair channels.
///
/// Model. Max-min fair rates by progressive filling (Bertsekas and Gallager 1992, 6.5.2), as in SimGrid's CM02 without
/// its TCP factors and latency weights. A flow f is a transfer whose latency has passed, or a collective. It passes
/// channel c a(f, c) times at once: once for a transfer; for a collective as often as the hops of its rings pass it,
/// all as fast as the slowest. Further symbols: w(f), the time of its bytes alone in nanoseconds; C(c), the bandwidth
/// of channel c; b(f), its rate alone, which is the minimum of the bandwidth of its route (for a collective, of its
/// slowest hop) and of C(c) / a(f, c). Bandwidths, and hence rates, are whole multiples of a unit for which the largest
/// C of the cluster is in [2^62, 2^63). They are rounded down; none is below 2^42 (kWidestFairRange).
///
/// Rates. While some flow has no rate:
///
///     share(c) = (C(c) - sum of a(f, c) rate(f) over flows with a rate) / (sum of a(f, c) over flows without),
///     rounded down
///
/// The channel with the least share assigns it to all its flows without a rate. But if the least b(f) of any flow
/// without a rate is below that share, f gets b(f). All channels and flows with the least value are treated at once, so
/// that equal flows get equal rates.
///
/// Progress. Rates are constant between events, and
///
///     left(f) = w(f) b(f)              when its bytes begin to flow
///     left(f) = left(f) - rate(f)      over each nanosecond
///
/// f ends after the first nanosecond at whose end 2 left(f) < rate(f). That is the instant nearest to the time at which
/// its bytes have passed, halves up, but not earlier than the next instant. All values are whole numbers, so that
/// results are the same on every machine.
///
/// Hence a single flow takes w(f) exactly. N flows of w that start together on one channel and all pass it equally
/// often take N w exactly, provided that 2 w N^2 + N <= C. C is at least 2^42: this allows 10 flows of 21 s on the
/// slowest possible link, and a million times more on the fastest.
///
/// So two all-reduces that each cross an uplink with n hops take as long as one with 2 n hops. They take twice as long
/// if the uplink is their bottleneck, although both have network cards of their own.
///
/// A flow that stands for others of the same rate (in a fold) passes channels on behalf of all of them: this counts in
/// a(f, c) for the shares, but not in b(f).
///
/// Cost. When a flow begins or ends, the rates of its component are recomputed: the flows connected with it by shared
/// channels. With n flows on m channels, r per route, that takes O(n r + m log m). Measured on layered graphs and
/// transformer steps of 20,000 ops on 8 and 64 devices: 1.3 to 1.6 times the time of the event engine on the same links
/// if serial, and 2.3 to 7 times that of the engine that fifo uses there.
class FairFlows {
 public:
  /// Allocates flows 0 to `flows` - 1. The cluster must outlive the object.
  FairFlows(const Cluster& cluster, std::size_t flows);

  /// Starts a flow. `alone` > 0 is w(f). `channels` are those of its route, including serial ones, each repeated as
  /// often as it is passed. `load` also counts the passes of the flows that it stands for. Both spans must stay valid
  /// until the flow ends.
  void begin(TransferId flow, Nanoseconds alone, BytesPerSecond slowest, std::span<const ChannelId> channels,
             std::span<const ChannelId> load, std::int64_t now);
  void end(TransferId flow);
  /// Whether the flow ends at this time, by its current rate.
  bool ends_at(TransferId flow, std::int64_t time) const { return flows_[flow].end == time; }

  struct End {
    std::int64_t time;
    TransferId flow;
  };
  /// Recomputes the rates after all flows of this instant have begun or ended. Returns the flows that now end first in
  /// their component, if that is new: each ends then unless another call changes it. Valid until the next call.
  std::span<const End> update(std::int64_t now);

  /// Rate in units per second; 0 before the flow's first update.
  std::int64_t rate(TransferId flow) const { return flows_[flow].rate; }
  std::int64_t bandwidth(ChannelId channel) const { return channels_[channel].bandwidth; }

 private:
  __extension__ using Wide = __int128;
  static constexpr std::int64_t kUnknown = -1;

  struct Flow {
    Wide left = 0;  // at `since`
    std::int64_t since = 0;
    std::int64_t rate = 0;
    std::int64_t limit = 0;             // b
    std::int64_t end = kUnknown;        // set if it is among the first of its component to end
    std::uint32_t seen = 0, rated = 0;  // the latest search and filling that reached the flow
    std::span<const ChannelId> channels;
  };
  struct Line {
    std::int64_t bandwidth = 0;  // 0: the channel is not fair
    std::int64_t rest = 0;       // bandwidth that the rates assigned so far leave
    std::uint32_t unrated = 0;
    std::uint32_t seen = 0;
    bool touched = false;
    std::vector<TransferId> flows;
  };
  /// An offered rate: by a channel, its share; or by a flow (numbered after the channels), its limit.
  using Offer = std::pair<std::int64_t, std::size_t>;

  std::int64_t units(BytesPerSecond bandwidth) const;
  void touch(ChannelId channel);
  void find_component(ChannelId from);
  void advance(std::int64_t now);
  void fill();
  void rate_flow(TransferId flow, std::int64_t rate);
  void find_first_ends();

  int shift_ = 0;  // one byte per second is 2^shift_ units
  IdMap<ChannelId, Line> channels_;
  IdMap<TransferId, Flow> flows_;
  std::vector<ChannelId> touched_;
  std::uint32_t search_ = 0, filling_ = 0;
  std::vector<ChannelId> component_channels_;
  std::vector<TransferId> component_flows_;
  std::vector<Offer> offers_;       // a heap, least first
  std::vector<std::size_t> least_;  // channels and flows with the least offer
  std::vector<End> ends_;
};

}  // namespace trainyard::detail
