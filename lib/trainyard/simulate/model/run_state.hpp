#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard {

namespace detail {

inline constexpr Nanoseconds kNotYet{-1};

/// Start and end of each task: kNotYet if it has not started, an end of kLongestTime if a flow's end is not known yet.
/// The ready time of a transfer is the end of its producer.
struct TaskTimes {
  IdMap<OpId, Span> ops;
  IdMap<TransferId, Nanoseconds> transfer_ready;
  IdMap<TransferId, Span> transfers;
  bool complete = true;  // false: some tasks never ran: a deadlock of strict orders, or held back by a rule
};

template <class Rule>
class EventLoop;

}  // namespace detail

/// The state that a dispatch rule can read: the problem, the placement, and the progress of the run.
class RunState {
 public:
  RunState(const Problem& problem, const Placement& placement, const detail::PlannedTransfers& transfers)
      : problem_(problem), placement_(placement), transfers_(transfers) {
    constexpr Span kNever{detail::kNotYet, detail::kNotYet};
    times_.ops.assign(problem.op_count(), kNever);
    times_.transfers.assign(transfers.size(), kNever);
    times_.transfer_ready.assign(transfers.size(), detail::kNotYet);
  }

  const Problem& problem() const { return problem_; }
  const Placement& placement() const { return placement_; }
  Nanoseconds now() const { return now_; }
  /// Duration of the op on its device.
  Nanoseconds duration(OpId op) const { return duration_[op]; }

  bool has_ended(OpId op) const { return ended(times_.ops[op]); }
  /// Number of ops that the device has started, except those of zero duration, which occupy no device.
  std::size_t started(DeviceId device) const { return started_[device]; }
  /// The last op that it started, or none.
  OpId last(DeviceId device) const { return last_[device]; }

  /// Bytes that are freed on the op's device when it ends, by the rules of memory: its inputs that no other op there
  /// has still to read and, if they were made there, that are not kept and that no transfer has still to send.
  Bytes frees(OpId op) const {
    const Graph& graph = problem_.graph();
    const DeviceId home = placement_[op];
    const auto needs = [&](OpId other) { return other != op && placement_[other] == home && !has_ended(other); };
    const auto leaves = [&](detail::TransferId transfer) { return !ended(times_.transfers[transfer]); };
    Bytes freed{0};
    for (const TensorId tensor : graph.inputs(op)) {
      if (std::ranges::any_of(graph.consumers(tensor), needs)) continue;
      const auto transfers = transfers_.of(tensor);
      if (placement_[graph.producer(tensor)] == home &&
          (graph.kept(tensor) || std::any_of(transfers.begin(), transfers.end(), leaves)))
        continue;
      freed += graph.bytes(tensor);
    }
    return freed;
  }

 private:
  template <class Rule>
  friend class detail::EventLoop;

  bool ended(const Span& span) const { return span.start != detail::kNotYet && span.end <= now_; }

  const Problem& problem_;
  const Placement& placement_;
  const detail::PlannedTransfers& transfers_;
  IdMap<OpId, Nanoseconds> duration_{problem_.op_count()};
  Nanoseconds now_{0};
  IdMap<DeviceId, std::uint32_t> started_{problem_.device_count(), 0};
  IdMap<DeviceId, OpId> last_{problem_.device_count(), OpId::none()};
  detail::TaskTimes times_;
};

}  // namespace trainyard
