#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "profiler/run/cpu/lost_time.hpp"
#include "profiler/run/cuda/plan.hpp"

namespace trainyard::cuda {

/// Streams of the host, as counterparts of GPU streams: a pinned thread for each CPU device, and one for each link
/// between two of them. A thread runs its items in the plan's order, each after the items that it waits for.
///
/// Host and GPUs signal the end of an item by a word in shared memory: the number of the step in which it last ended.
/// GPUs write it by cuStreamWriteValue32, and wait for it by cuStreamWaitValue32.
class HostWorkers {
 public:
  /// `lanes`: items of each thread, ascending; `cores`: the core of each thread; `words`: one per item of the plan.
  HostWorkers(const ExecutionPlan& plan, std::vector<std::vector<std::uint32_t>> lanes, const std::vector<int>& cores,
              std::uint32_t* words);
  ~HostWorkers();
  HostWorkers(HostWorkers&&) = delete;

  /// Starts step `step`, greater than the last one. All threads begin when the word `gate` reaches it.
  void begin(std::uint32_t step, const std::uint32_t* gate, std::function<void(std::uint32_t)> run);
  /// Waits until all threads have run their items, and throws what one of them threw. After give_up() they end soon,
  /// whatever they wait for.
  void end();
  void give_up() { given_up_.store(true); }

  struct Times {
    std::int64_t start = 0, end = 0;  // by now_ns
    std::int64_t lost = 0;            // part of it, in nanoseconds, in which other work had the core
    std::int64_t late = 0;            // possible delay of the start: the thread did not poll in this time
  };
  /// Times of each item in the last step.
  const std::vector<Times>& times() const { return times_; }

 private:
  void work(std::size_t lane, int core);
  void run_lane(std::size_t lane, cpu::LostTime& lost);
  bool wait_for(const std::uint32_t* word, std::int64_t& late) const;

  const ExecutionPlan& plan_;
  const std::vector<std::vector<std::uint32_t>> lanes_;
  std::uint32_t* const words_;
  std::function<void(std::uint32_t)> run_;
  const std::uint32_t* gate_ = nullptr;
  std::uint32_t step_ = 0;
  std::vector<Times> times_;
  std::vector<std::thread> threads_;
  std::atomic<int> epoch_{0}, busy_{0};
  std::atomic<bool> given_up_{false}, stop_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace trainyard::cuda
