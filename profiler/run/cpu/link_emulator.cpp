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
  const auto channels = problem_.cluster().route(transfer.from, transfer.to).channels;
  const Nanoseconds time = problem_.transfer_time(transfer.tensor, transfer.from, transfer.to);
  add({.transfer = std::move(transfer),
       .priority = priority,
       .channels = {channels.begin(), channels.end()},
       .time = time});
}

void LinkEmulator::submit(OpId collective, Nanoseconds ready, Nanoseconds time, std::vector<ChannelId> channels,
                          double priority) {
  add({.transfer =
           {.tensor = TensorId::none(), .from = {}, .to = {}, .bytes = {}, .ready = ready, .start = {}, .end = {}},
       .priority = priority,
       .collective = collective,
       .channels = std::move(channels),
       .time = time});
}

void LinkEmulator::add(Request request) {
  while (busy_.test_and_set(std::memory_order_acquire)) {
  }
  if (request.time.count == 0) {
    request.transfer.start = request.transfer.end = request.transfer.ready;  // it takes no link
    request.until = request.transfer.end.count;
  }
  requests_.push_back(std::move(request));
  waiting_.fetch_add(1, std::memory_order_release);
  busy_.clear(std::memory_order_release);
}

bool LinkEmulator::before(const Request& a, const Request& b) const {
  if (by_priority_ && a.priority != b.priority) return a.priority > b.priority;
  const auto key = [](const Request& r) {  // collectives behind transfers
    const bool whole = !r.collective.is_none();
    return std::tuple{r.transfer.ready, whole, whole ? r.collective.index() : r.transfer.tensor.index(),
                      whole ? std::size_t{0} : r.transfer.to.index()};
  };
  return key(a) < key(b);
}

/// The transfer that starts next, if it does by `now`. One that is first in the order among those ready at the time
/// at which its channels fall idle starts then; those behind it wait for it.
bool LinkEmulator::start_next(std::int64_t now) {
  // The earliest time at which a waiting transfer finds its channels idle, and the first in the order then.
  const auto idle_at = [&](const Request& request) {
    std::int64_t at = request.transfer.ready.count;
    for (const ChannelId channel : request.channels) at = std::max(at, free_[channel]);
    return at;
  };
  Request* best = nullptr;
  std::int64_t best_at = 0;
  for (Request& request : requests_) {
    if (request.until >= 0) continue;
    const std::int64_t at = idle_at(request);
    if (at > now) continue;
    // One before it in the order that shares a channel, and is ready by then, holds it back.
    const std::vector<ChannelId>& route = request.channels;
    const bool held_back = std::any_of(requests_.begin(), requests_.end(), [&](const Request& other) {
      if (other.until >= 0 || &other == &request || other.transfer.ready.count > at || !before(other, request))
        return false;
      return std::any_of(other.channels.begin(), other.channels.end(),
                         [&](ChannelId c) { return std::find(route.begin(), route.end(), c) != route.end(); });
    });
    if (held_back) continue;
    if (!best || at < best_at || (at == best_at && before(request, *best))) best = &request, best_at = at;
  }
  if (!best) return false;
  Transfer& transfer = best->transfer;
  transfer.start = Nanoseconds{best_at};
  transfer.end = transfer.start + best->time;
  best->until = transfer.end.count;
  if (best->time.count > 0)
    for (const ChannelId channel : best->channels)
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
