#include "profiler/run/cpu/link_emulator.hpp"

#include <algorithm>
#include <tuple>

namespace trainyard::cpu {

LinkEmulator::LinkEmulator(const Problem& problem, Policy policy)
    : problem_(problem), by_priority_(policy == Policy::priority), free_(problem.cluster().channel_count(), 0) {}

void LinkEmulator::reset() {
  requests_.clear();
  done_.clear();
  free_.assign(free_.size(), 0);
  waiting_.store(0);
}

void LinkEmulator::submit(Transfer transfer, double priority) {
  while (busy_.test_and_set(std::memory_order_acquire)) {
  }
  requests_.push_back({.transfer = std::move(transfer), .priority = priority});
  Request& request = requests_.back();
  if (problem_.transfer_time(request.transfer.tensor, request.transfer.from, request.transfer.to).count == 0) {
    request.transfer.start = request.transfer.end = request.transfer.ready;  // it takes no link
    request.until = request.transfer.end.count;
  }
  waiting_.fetch_add(1, std::memory_order_release);
  busy_.clear(std::memory_order_release);
}

bool LinkEmulator::before(const Request& a, const Request& b) const {
  if (by_priority_ && a.priority != b.priority) return a.priority > b.priority;
  const auto key = [](const Transfer& t) { return std::tuple{t.ready, t.tensor.index(), t.to.index()}; };
  return key(a.transfer) < key(b.transfer);
}

/// The transfer that starts next, if it does by `now`. One that is first in the order among those ready at the time
/// at which its channels fall idle starts then; those behind it wait for it.
bool LinkEmulator::start_next(std::int64_t now) {
  // The earliest time at which a waiting transfer finds its channels idle, and the first in the order then.
  const auto idle_at = [&](const Request& request) {
    std::int64_t at = request.transfer.ready.count;
    for (const ChannelId channel : problem_.cluster().route(request.transfer.from, request.transfer.to).channels)
      at = std::max(at, free_[channel]);
    return at;
  };
  Request* best = nullptr;
  std::int64_t best_at = 0;
  for (Request& request : requests_) {
    if (request.until >= 0) continue;
    const std::int64_t at = idle_at(request);
    if (at > now) continue;
    // One before it in the order that shares a channel, and is ready by then, holds it back.
    const auto route = problem_.cluster().route(request.transfer.from, request.transfer.to).channels;
    const bool held_back = std::any_of(requests_.begin(), requests_.end(), [&](const Request& other) {
      if (other.until >= 0 || &other == &request || other.transfer.ready.count > at || !before(other, request))
        return false;
      const auto channels = problem_.cluster().route(other.transfer.from, other.transfer.to).channels;
      return std::any_of(channels.begin(), channels.end(),
                         [&](ChannelId c) { return std::find(route.begin(), route.end(), c) != route.end(); });
    });
    if (held_back) continue;
    if (!best || at < best_at || (at == best_at && before(request, *best))) best = &request, best_at = at;
  }
  if (!best) return false;
  Transfer& transfer = best->transfer;
  const Nanoseconds time = problem_.transfer_time(transfer.tensor, transfer.from, transfer.to);
  transfer.start = Nanoseconds{best_at};
  transfer.end = transfer.start + time;
  best->until = transfer.end.count;
  if (time.count > 0)
    for (const ChannelId channel : problem_.cluster().route(transfer.from, transfer.to).channels)
      free_[channel] = best->until + problem_.cluster().channel(channel).gap.count;
  return true;
}

std::vector<Transfer> LinkEmulator::transfers() const {
  std::vector<Transfer> result = done_;
  std::sort(result.begin(), result.end(), [](const Transfer& a, const Transfer& b) {
    return std::tuple{a.tensor.index(), a.to.index()} < std::tuple{b.tensor.index(), b.to.index()};
  });
  return result;
}

}  // namespace trainyard::cpu
