#pragma once

#include <boost/heap/d_ary_heap.hpp>
#include <cstddef>
#include <cstdint>

#include "trainyard/core/quantity.hpp"

namespace trainyard::detail {

/// An event at a point in time.
struct Event {
  enum class Kind : std::uint8_t {
    op_ends,
    transfer_ends,  // for a flow over fair channels, only if its rate has not changed since
    device_idle,    // its gap is over
    channel_idle,
    bytes_flow,  // end of the latency of a transfer over fair channels
  };

  Nanoseconds time;
  std::uint32_t id = 0;  // id of the op, transfer, device or channel
  Kind kind = Kind::op_ends;
};

/// The future events, earliest first. The order within one instant is that of the heap and does not matter, because the
/// loop completes all of them before it dispatches anything.
///
/// A Boost.Heap with four children per node: within 2 % of std::priority_queue, and it can reserve memory. Eight
/// children are slower on 64 devices (bench/simulate_bench.cpp).
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
