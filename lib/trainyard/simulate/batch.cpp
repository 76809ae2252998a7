#include "trainyard/simulate/batch.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "trainyard/core/parallel.hpp"

namespace trainyard {

Batch::Batch(const Problem& problem, unsigned threads) {
  const std::size_t count = thread_count(threads);
  simulations_.reserve(count);
  simulations_.emplace_back(problem);
  while (simulations_.size() < count) simulations_.push_back(simulations_.front());
}

template <class Result, class Evaluate>
std::vector<Result> Batch::each(std::span<const Schedule> schedules, const Evaluate& evaluate) {
  std::vector<Result> results(schedules.size());
  // Threads take the next few schedules: schedules differ in cost, and neighbours in `results` share cache lines.
  constexpr std::size_t kChunk = 8;
  std::atomic<std::size_t> next{0};
  const auto work = [&](Simulation& simulation) {
    for (;;) {
      const std::size_t first = next.fetch_add(kChunk, std::memory_order_relaxed);
      if (first >= schedules.size()) return;
      const std::size_t last = std::min(first + kChunk, schedules.size());
      for (std::size_t i = first; i < last; ++i) results[i] = evaluate(simulation, schedules[i]);
    }
  };
  const std::size_t workers = std::min(simulations_.size(), (schedules.size() + kChunk - 1) / kChunk);
  parallel_for(static_cast<unsigned>(workers), workers, [&](std::size_t i) { work(simulations_[i]); });
  return results;
}

std::vector<Nanoseconds> Batch::makespans(std::span<const Schedule> schedules) {
  return each<Nanoseconds>(
      schedules, [](Simulation& simulation, const Schedule& schedule) { return simulation.makespan(schedule); });
}

std::vector<MemoryPeaks> Batch::peaks(std::span<const Schedule> schedules) {
  return each<MemoryPeaks>(schedules,
                           [](Simulation& simulation, const Schedule& schedule) { return simulation.peaks(schedule); });
}

}  // namespace trainyard
