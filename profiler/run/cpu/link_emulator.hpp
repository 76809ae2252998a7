#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::cpu {

using detail::TransferId;

/// Links that move nothing and take the time that the problem gives, for the transfers and collectives of a schedule as
/// the simulator plans them. A transfer starts when it is the first, by (urgency, ready time, id), on all channels of
/// its route and all of them are idle. Any thread may evaluate these decisions later, but with the outcome at the time
/// they were due.
class LinkEmulator {
 public:
  LinkEmulator(const Problem& problem, const Schedule& schedule);

  /// The schedule's transfers; a collective is the transfer of its op.
  const detail::PlannedTransfers& planned() const { return planned_; }
  void reset();
  void submit(TransferId transfer, Nanoseconds ready);
  /// Processes all events up to `now`, and calls deliver(transfer, its span) for each transfer that has ended.
  template <class Deliver>
  void advance(std::int64_t now, Deliver&& deliver) {
    if (waiting_.load(std::memory_order_acquire) == 0 || busy_.test_and_set(std::memory_order_acquire)) return;
    while (start_next(now)) {
    }
    for (std::size_t i = 0; i < requests_.size();) {
      if (!requests_[i].started || requests_[i].span.end.count > now) {
        ++i;
        continue;
      }
      const Request ended = requests_[i];
      done_.push_back(ended);
      requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
      waiting_.fetch_sub(1, std::memory_order_release);
      deliver(ended.transfer, ended.span);
    }
    busy_.clear(std::memory_order_release);
  }
  /// Transfers of the step without collectives, by (tensor, device). Call after the step.
  std::vector<Transfer> transfers() const;

 private:
  struct Request {
    TransferId transfer;
    Nanoseconds ready;
    bool started = false;
    Span span = {};  // once it has started
  };

  bool start_next(std::int64_t now);
  bool before(const Request& a, const Request& b) const;

  const Problem& problem_;
  const detail::PlannedTransfers planned_;
  IdMap<TransferId, double> urgency_;
  std::vector<Request> requests_, done_;  // waiting or in flight; ended
  IdMap<ChannelId, std::int64_t> free_;
  std::atomic<int> waiting_{0};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace trainyard::cpu
