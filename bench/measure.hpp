#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "floor.hpp"
#include "lean_floor.hpp"
#include "trainyard/core/statistics.hpp"
#include "workloads.hpp"

namespace trainyard::bench {

/// Processor time of this thread in seconds: less sensitive to other load on the machine than wall-clock time.
inline double thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double thread_time_of(Work&& work) {
  const double before = thread_time();
  work();
  return thread_time() - before;
}

/// For an even number of values, the upper one of the two middle values.
inline double median(std::vector<double> values) { return upper_quantile_of(std::move(values)); }

/// Keeps the compiler from removing the computation of the value.
template <class Value>
void keep(const Value& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// Alternates rounds of the floors and of a candidate on one workload, so that all run on the machine in the same
/// state. Each round continues with the next placements. Results are medians over rounds, of times and of the ratio to
/// the faster form of the floor in the same round. The first round does not count.
class Race {
 public:
  explicit Race(const Workload& workload)
      : workload_(workload),
        dense_(workload.problem),
        floor_(dense_),
        lean_(workload),
        batch_(std::clamp<std::size_t>(kOpsPerRound / workload.ops(), 1, workload.fifo.size())) {}

  /// Runs one round and returns the seconds per evaluation. `candidate(i)` evaluates placement i. `base(i)`, if given,
  /// is the baseline of added_ratio().
  template <class Candidate>
  double round(const Candidate& candidate, const std::function<void(std::size_t)>& base = {}) {
    const std::size_t first = next_;
    next_ = (next_ + batch_) % workload_.fifo.size();
    const auto each = [&](const auto& work) {
      return thread_time_of([&] {
               for (std::size_t i = 0; i < batch_; ++i) work((first + i) % workload_.fifo.size());
             }) /
             static_cast<double>(batch_);
    };
    const auto placement = [&](std::size_t i) -> const Placement& { return workload_.fifo[i].placement; };
    const double floor = std::min(each([&](std::size_t i) { keep(floor_.branchy(placement(i))); }),
                                  each([&](std::size_t i) { keep(floor_.branchless(placement(i))); }));
    const double lean = std::min(each([&](std::size_t i) { keep(lean_.branchy(placement(i))); }),
                                 each([&](std::size_t i) { keep(lean_.branchless(placement(i))); }));
    const double before = base ? each(base) : 0;
    const double time = each(candidate);
    if (std::exchange(warm_, true)) {
      times_.push_back(time);
      floors_.push_back(floor);
      ratios_.push_back(time / floor);
      lean_ratios_.push_back(time / lean);
      added_.push_back((time - before) / floor);
    }
    return time;
  }

  /// Time of the candidate over that of the floor; lean_ratio(): over that of the lean floor.
  double ratio() const { return median(ratios_); }
  double lean_ratio() const { return median(lean_ratios_); }
  /// Time of the candidate minus that of the base, over that of the floor.
  double added_ratio() const { return median(added_); }
  double ns_per_op() const { return 1e9 * median(times_) / static_cast<double>(workload_.ops()); }
  double floor_ns_per_op() const { return 1e9 * median(floors_) / static_cast<double>(workload_.ops()); }
  double per_second() const { return 1 / median(times_); }

 private:
  static constexpr std::size_t kOpsPerRound = 80'000;

  const Workload& workload_;
  detail::DenseProblem dense_;
  Floor floor_;
  LeanFloor lean_;
  std::size_t batch_, next_ = 0;
  bool warm_ = false;
  std::vector<double> times_, floors_, ratios_, lean_ratios_, added_;
};

}  // namespace trainyard::bench
