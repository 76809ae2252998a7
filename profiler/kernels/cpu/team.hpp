#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace trainyard::cpu {

/// The cores of one device, for threads within an op. The creating thread is the first member. The others are pinned to
/// the other cores, and wait, at first by spinning.
///
/// Work is cut into as many pieces as the team has cores, however many threads are in use, so that results do not
/// depend on the number of threads.
class Team {
 public:
  /// `cores[0]` is the core of the calling thread.
  explicit Team(const std::vector<int>& cores);
  ~Team();
  Team(const Team&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }
  /// Sets the number of threads that ops use.
  void use(int threads) { used_ = threads; }
  /// Runs f(0) .. f(pieces - 1), each once, on the threads in use.
  void run(int pieces, const std::function<void(int)>& f);

 private:
  void work(int member, int core);
  void take();

  std::vector<std::thread> threads_;
  std::atomic<int> round_{0}, next_{0}, busy_{0};
  std::atomic<bool> stop_{false};
  const std::function<void(int)>* work_ = nullptr;
  int pieces_ = 0, used_ = 1;
};

/// Team of the calling thread while an op runs; null: it computes alone.
Team*& current_team();

/// Calls f(begin, end) over parts of [0, count) on the calling thread's team. Makes one call for all of it without a
/// team, or for fewer than `least` elements per core.
template <class F>
void in_parallel(std::int64_t count, std::int64_t least, F&& f) {
  Team* team = current_team();
  const std::int64_t pieces = team ? team->size() : 1;
  if (pieces == 1 || count < least * pieces) return f(std::int64_t{0}, count);
  current_team() = nullptr;  // pieces compute alone
  team->run(static_cast<int>(pieces), [&](int piece) { f(count * piece / pieces, count * (piece + 1) / pieces); });
  current_team() = team;
}

}  // namespace trainyard::cpu
