#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::detail {

__extension__ using Int128 = __int128;

/// Devices with the same durations for every op (Problem::column).
struct DeviceClass {
  DeviceId example;
  std::int64_t devices = 0;
  Nanoseconds gap{};  // the least
};
std::vector<DeviceClass> device_classes(const Problem& problem);

inline constexpr std::int64_t kNeverRuns = -1;

/// p'(op, class) of work_bound: the duration, plus the class's gap if it is not 0; kNeverRuns if the class cannot run
/// the op.
std::int64_t gapped_duration(const Problem& problem, OpId op, const DeviceClass& c);

/// p'(group, class), as a groups x classes matrix; kNeverRuns if the class cannot run all ops of the group.
std::vector<std::int64_t> group_costs(const Problem& problem, const std::vector<DeviceClass>& classes);

/// The bound of work_bound for given weights, and the search for good weights.
class WeightedWork {
 public:
  explicit WeightedWork(const Problem& problem);

  const std::vector<DeviceClass>& classes() const { return classes_; }
  const std::vector<std::int64_t>& weights() const { return best_weights_; }
  Nanoseconds bound() const { return best_; }

  /// sum w D and sum w D g, for the best weights.
  Int128 capacity() const { return capacity(best_weights_); }
  Int128 gaps() const { return gaps(best_weights_); }

 private:
  Int128 capacity(const std::vector<std::int64_t>& weights) const;
  Int128 gaps(const std::vector<std::int64_t>& weights) const;
  /// Loads of the classes if every group is in the class with its least weighted cost. Keeps the best bound.
  std::vector<Int128> evaluate(const std::vector<std::int64_t>& weights);
  void bisect();
  void multiply();

  std::vector<DeviceClass> classes_;
  std::vector<std::int64_t> costs_;
  std::vector<std::int64_t> best_weights_;
  Nanoseconds best_{0};
};

}  // namespace trainyard::detail
