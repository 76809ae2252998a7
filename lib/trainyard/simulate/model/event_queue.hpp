#pragma once

#include <boost/heap/d_ary_heap.hpp>
#include <cstddef>
#include <cstdint>

#include "trainyard/core/quantity.hpp"

namespace trainyard::detail {

/// Something that is to happen at a time.
struct Event {
  enum class Kind : std::uint8_t {
    op_ends,
    transfer_ends,  // of a flow on fair channels: unless its rate has changed since
    device_idle,    // its gap is over
    channel_idle,
    bytes_flow,  // the latency of a transfer over fair channels is over
  };

  Nanoseconds time;
  std::uint32_t id = 0;  // of the op, transfer, device or channel
  Kind kind = Kind::op_ends;
};

/// The events to come, earliest first. The order within one instant is that of the heap, and immaterial: the loop
/// completes all of them before it dispatches anything.
///
/// A Boost.Heap of four children per node: within 2 % of std::priority_queue, and it can reserve; eight children are
/// slower on 64 devices (bench/simulate_bench.cpp).
class EventQueue {
 public:
  void reserve(std::size_t events) { heap_.reserve(events); }
  bool empty() const { return heap_.empty(); }
  Nanoseconds earliest() const { return heap_.top().time; }
  bool has(Nanoseconds time) const { return !empty() && earliest() == time; }
  void push(const Event& event) { heap_.push(event); }
  Event take() {
    const Event event = heap_.top();
    heap_.pop();
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.time > b.time; }
  };
  boost::heap::d_ary_heap<Event, boost::heap::arity<4>, boost::heap::compare<Later>> heap_;
};

}  // namespace trainyard::detail
