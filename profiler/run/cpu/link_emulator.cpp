#include "profiler/run/cpu/link_emulator.hpp"

#include <algorithm>
#include <tuple>

namespace trainyard::cpu {

LinkEmulator::LinkEmulator(const Problem& problem, const Schedule& schedule)
    : problem_(problem),
      planned_(problem, schedule.placement),
      urgency_(planned_.size(), 0),
      free_(problem.cluster().channel_count(), 0) {
  if (!schedule.links_by_priority()) return;
  for (const TransferId transfer : planned_.ids()) {  // by its most urgent consumer, or member
    const auto consumers = planned_.consumers(transfer);
    for (const OpId op : consumers)
      urgency_[transfer] =
          op == consumers.front() ? schedule.priority[op] : std::max(urgency_[transfer], schedule.priority[op]);
  }
}

void LinkEmulator::reset() {
  requests_.clear();
  done_.clear();
  free_.assign(free_.size(), 0);
  waiting_.store(0);
}

void LinkEmulator::submit(TransferId transfer, Nanoseconds ready) {
  Request request{transfer, ready};
  if (planned_.duration[transfer].count == 0) request.started = true, request.span = {ready, ready};  // takes no link
  while (busy_.test_and_set(std::memory_order_acquire)) {
  }
  requests_.push_back(request);
  waiting_.fetch_add(1, std::memory_order_release);
  busy_.clear(std::memory_order_release);
}

bool LinkEmulator::before(const Request& a, const Request& b) const {
  return std::tuple{-urgency_[a.transfer], a.ready, a.transfer} <
         std::tuple{-urgency_[b.transfer], b.ready, b.transfer};
}

/// Starts the next transfer that can start by `now`. A transfer that is first in the order among those ready when its
/// channels fall idle starts then; those behind it wait.
bool LinkEmulator::start_next(std::int64_t now) {
  // The earliest time at which a waiting transfer finds its channels idle, and the first in the order then.
  const auto idle_at = [&](const Request& request) {
    std::int64_t at = request.ready.count;
    for (const ChannelId channel : planned_.channels(request.transfer)) at = std::max(at, free_[channel]);
    return at;
  };
  Request* best = nullptr;
  std::int64_t best_at = 0;
  for (Request& request : requests_) {
    if (request.started) continue;
    const std::int64_t at = idle_at(request);
    if (at > now) continue;
    // A transfer before it in the order that shares a channel and is ready by then holds it back.
    const auto route = planned_.channels(request.transfer);
    const bool held_back = std::ranges::any_of(requests_, [&](const Request& other) {
      if (other.started || &other == &request || other.ready.count > at || !before(other, request)) return false;
      return std::ranges::find_first_of(planned_.channels(other.transfer), route) !=
             planned_.channels(other.transfer).end();
    });
    if (held_back) continue;
    if (!best || at < best_at || (at == best_at && before(request, *best))) best = &request, best_at = at;
  }
  if (!best) return false;
  best->started = true;
  best->span = {Nanoseconds{best_at}, Nanoseconds{best_at} + planned_.duration[best->transfer]};
  for (const ChannelId channel : planned_.channels(best->transfer))
    free_[channel] = best->span.end.count + problem_.cluster().channel(channel).gap.count;
  return true;
}

std::vector<Transfer> LinkEmulator::transfers() const {
  std::vector<Request> ended = done_;
  std::erase_if(ended, [&](const Request& request) { return planned_.tensor[request.transfer].is_none(); });
  std::ranges::sort(ended, {}, [&](const Request& request) {
    return std::pair{planned_.tensor[request.transfer], planned_.to[request.transfer]};
  });
  std::vector<Transfer> result;
  for (const auto& [transfer, ready, started, span] : ended) {
    const TensorId tensor = planned_.tensor[transfer];
    const auto others = planned_.also_to(transfer);
    result.push_back({.tensor = tensor,
                      .from = planned_.from[transfer],
                      .to = planned_.to[transfer],
                      .bytes = problem_.graph().bytes(tensor),
                      .ready = ready,
                      .start = span.start,
                      .end = span.end,
                      .also_to = {others.begin(), others.end()}});
  }
  return result;
}

}  // namespace trainyard::cpu
