#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::cpu {

/// Links that move nothing and take the time that the problem says: a transfer starts when it is the first, by
/// (priority, ready time, id), on all channels of its route and all of them are idle. Decisions are made late, by
/// whoever asks, but as of the time at which they fall.
class LinkEmulator {
 public:
  struct Request {
    Transfer transfer;
    double priority = 0;
    OpId collective = OpId::none();        // a collective, with times of `transfer` alone
    std::vector<ChannelId> channels = {};  // that it holds
    Nanoseconds time{};                    // for so long
    std::int64_t until = -1;               // when it arrives; -1: it waits for its start
  };

  LinkEmulator(const Problem& problem, Policy policy);

  void reset();
  void submit(Transfer transfer, double priority);
  /// A collective that is ready at this time, and holds the channels for as long.
  void submit(OpId collective, Nanoseconds ready, Nanoseconds time, std::vector<ChannelId> channels, double priority);
  /// Everything that happens up to `now`; deliver(transfer, op) for each transfer that has arrived, or collective that
  /// has ended.
  template <class Deliver>
  void advance(std::int64_t now, Deliver&& deliver) {
    if (waiting_.load(std::memory_order_acquire) == 0 || busy_.test_and_set(std::memory_order_acquire)) return;
    while (start_next(now)) {
    }
    for (std::size_t i = 0; i < requests_.size();) {
      if (requests_[i].until < 0 || requests_[i].until > now) {
        ++i;
        continue;
      }
      const OpId collective = requests_[i].collective;
      const Transfer transfer = std::move(requests_[i].transfer);
      if (collective.is_none()) done_.push_back(transfer);
      requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
      waiting_.fetch_sub(1, std::memory_order_release);
      deliver(transfer, collective);
    }
    busy_.clear(std::memory_order_release);
  }
  /// After the step.
  std::vector<Transfer> transfers() const;

 private:
  void add(Request request);
  bool start_next(std::int64_t now);
  bool before(const Request& a, const Request& b) const;

  const Problem& problem_;
  const bool by_priority_;
  std::vector<Request> requests_;  // on their way
  std::vector<Transfer> done_;
  IdMap<ChannelId, std::int64_t> free_;
  std::atomic<int> waiting_{0};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace trainyard::cpu
