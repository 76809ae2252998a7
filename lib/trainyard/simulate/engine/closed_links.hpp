#pragma once

#include <algorithm>
#include <cstdint>

#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/destinations.hpp"
#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::detail {

/// Closed form of channels that are fed by one device. Their transfers become ready in the order in which the device's
/// ops run, so each arrival is known when the producer is committed. Base class of the walks that commit ops in the
/// order of their ready times; its inner loops read local copies of pointers.
///
/// A Walk provides satisfy(op, time), which decrements the op's missing inputs, and record_transfer(slot, tensor, to,
/// ready, start, end).
template <class Walk, DenseProblem::Links kLinks, bool kRecord>
class ClosedLinks {
 protected:
  using Links = DenseProblem::Links;

  ClosedLinks(const DenseProblem& problem, WalkState& work) : problem_(problem), work_(work) {}

  /// Sends the tensor in its turn on the channel and returns its arrival time at `to`.
  [[gnu::always_inline]] Nanoseconds arrive(TensorPosition tensor, DeviceId from, DeviceId to, Nanoseconds ready,
                                            Slot slot) {
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const Nanoseconds time = problem_.transfer_time(tensor, pair);
    Nanoseconds start = ready;
    if (time > Nanoseconds{0} && !pair.channel.is_none()) {
      Nanoseconds& free = channel_free_[pair.channel];
      start = std::max(ready, free);
      free = start + time + problem_.channel_gap[pair.channel];
    }
    walk().record_transfer(slot, tensor, to, ready, start, start + time);
    return start + time;
  }

  /// Sends the tensor to all its consumers and returns the number of transfers.
  [[gnu::always_inline]] std::uint32_t send_closed(TensorPosition tensor, DeviceId device, Nanoseconds end) {
    const IdRange<Edge> edges = graph_.edges(tensor);
    sent_[device].tensor = tensor;
    sent_[device].arrival = end;
    std::uint32_t transfers = 0;
    if (kLinks == Links::egresses && edges.size() > 1) transfers = send_ascending(tensor, device, end);
    for (const Edge edge : edges) {
      const Position op = graph_.consumer(edge);
      const DeviceId to = ops_[op].device;
      WalkState::Sent& sent = sent_[to];
      if (sent.tensor != tensor) {
        sent.tensor = tensor;
        sent.arrival = arrive(tensor, device, to, end, slot(tensor, transfers++));
      }
      walk().satisfy(op, sent.arrival);
    }
    return transfers;
  }

  const DenseProblem& problem_;
  const DenseGraph graph_{problem_.graph};
  WalkState& work_;
  const IdArray<Position, WalkState::Op> ops_{work_.ops.data()};
  const IdArray<DeviceId, Nanoseconds> device_free_{work_.device_free.data()};
  const IdArray<ChannelId, Nanoseconds> channel_free_{work_.channel_free.data()};
  const IdArray<DeviceId, WalkState::Sent> sent_{work_.sent.data()};

 private:
  Walk& walk() { return static_cast<Walk&>(*this); }
  Slot slot(TensorPosition tensor, std::uint32_t number) const {
    return kRecord ? problem_.slot(tensor, number) : Slot::none();
  }

  /// Sends one tensor on an egress, by ascending destination.
  std::uint32_t send_ascending(TensorPosition tensor, DeviceId device, Nanoseconds end) {
    auto& destinations = work_.destinations;
    destinations.clear();
    for (const Edge edge : graph_.edges(tensor)) {
      const DeviceId to = ops_[graph_.consumer(edge)].device;
      if (sent_[to].tensor == tensor) continue;
      sent_[to].tensor = tensor;
      destinations.push_back({to, {}, {}});
    }
    sort_destinations(work_);
    std::uint32_t transfers = 0;
    for (const WalkState::Destination& destination : destinations)
      sent_[destination.device].arrival = arrive(tensor, device, destination.device, end, slot(tensor, transfers++));
    return transfers;
  }
};

}  // namespace trainyard::detail
