#include "trainyard/place/baechi/m_channels.hpp"

#include <algorithm>

namespace trainyard {

BaechiChannels::BaechiChannels(const Problem& problem, const OpEdges& edges) : problem_(problem), edges_(edges) {}

Nanoseconds BaechiChannels::arrival(TensorId tensor, DeviceId device) const {
  for (std::uint32_t at = first_arrival_[tensor]; at != kNoArrival; at = arrivals_[at].next)
    if (arrivals_[at].device == device) return arrivals_[at].at;
  return Nanoseconds{-1};
}

bool BaechiChannels::holds(const Estimate& estimate, OpId op, DeviceId device, const Placement& placement) const {
  if (estimate.ready < Nanoseconds{0}) return false;
  if (estimate.settled || estimate.stamp == sends_) return true;
  if (moved_[device] > estimate.stamp) return false;
  const auto into = edges_.into(op);
  return std::all_of(into.begin(), into.end(),
                     [&](EdgeId edge) { return moved_[placement[edges_.from(edge)]] <= estimate.stamp; });
}

Nanoseconds BaechiChannels::ready(OpId op, DeviceId device, const Placement& placement,
                                  const IdMap<OpId, Nanoseconds>& end, Estimate& estimate) const {
  if (holds(estimate, op, device, placement)) return estimate.ready;
  estimate = {.ready = Nanoseconds{0}, .stamp = sends_, .settled = true};
  for (const EdgeId edge : edges_.into(op)) {
    const OpId producer = edges_.from(edge);
    const DeviceId from = placement[producer];
    Nanoseconds latest = end[producer];
    if (from != device) {
      Nanoseconds missing{0};
      bool sends = false;
      for (const TensorId tensor : edges_.tensors(edge)) {
        const Nanoseconds there = arrival(tensor, device);
        latest = std::max(latest, there);
        if (there >= Nanoseconds{0}) continue;
        missing += problem_.transfer_time(tensor, from, device);
        sends = true;
      }
      if (sends) latest = std::max(latest, std::max({end[producer], free_[from], free_[device]}) + missing);
      estimate.settled &= !sends;
    }
    estimate.ready = std::max(estimate.ready, latest);
  }
  return estimate.ready;
}

Nanoseconds BaechiChannels::send(OpId op, DeviceId device, const Placement& placement,
                                 const IdMap<OpId, Nanoseconds>& end) {
  Nanoseconds ready{0};
  for (const EdgeId edge : edges_.into(op)) {
    const OpId producer = edges_.from(edge);
    const DeviceId from = placement[producer];
    ready = std::max(ready, end[producer]);
    if (from == device) continue;
    for (const TensorId tensor : edges_.tensors(edge)) {
      Nanoseconds there = arrival(tensor, device);
      if (there < Nanoseconds{0}) {
        const Nanoseconds time = problem_.transfer_time(tensor, from, device);
        const Nanoseconds send_start = std::max(end[producer], free_[from]);
        free_[from] = send_start + time;
        there = std::max(send_start, free_[device]) + time;
        free_[device] = there;
        moved_[from] = moved_[device] = ++sends_;
        arrivals_.push_back({device, there, first_arrival_[tensor]});
        first_arrival_[tensor] = static_cast<std::uint32_t>(arrivals_.size() - 1);
      }
      ready = std::max(ready, there);
    }
  }
  return ready;
}

}  // namespace trainyard
