#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/dense_problem.hpp"

namespace trainyard::detail {

/// The strict orders of all devices as lists, so that an op changes its place at no cost. By position.
class DeltaOrder {
 public:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  DeltaOrder(const DenseProblem& problem, const Schedule& schedule);

  std::uint32_t first(std::uint32_t device) const { return first_[device]; }
  std::uint32_t before(std::uint32_t op) const { return before_[op]; }
  std::uint32_t after(std::uint32_t op) const { return after_[op]; }

  void take_out(std::uint32_t op, std::uint32_t device);
  /// Right after `place`; kNobody: first.
  void put(std::uint32_t op, std::uint32_t device, std::uint32_t place);

  /// One device's order, as schedules have it.
  void write(const DenseProblem& problem, std::uint32_t device, std::vector<OpId>& order) const;

 private:
  std::vector<std::uint32_t> before_, after_;
  std::vector<std::uint32_t> first_;  // by device
};

}  // namespace trainyard::detail
