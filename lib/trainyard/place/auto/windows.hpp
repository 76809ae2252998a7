#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/place/exact/model.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Large-neighbourhood search (Shaw 1998) with branch and bound as its sub-solver. A window of ops that start one after
/// the other around a critical op is placed and ordered anew; all other ops keep their devices and order.
///
/// A window is a subproblem. By the present run, each of its ops has, for each device, a time at which its inputs are
/// there, and a time from its end to the end of the step. Each device and channel is free from some time on, and a
/// colocation group with an op outside stays on its device. The optimum of the window is exact except for the links:
/// transfers of other ops at the same time are not seen. Each answer is therefore simulated, and kept if the schedule
/// is no worse.
class WindowSearch {
 public:
  static constexpr std::size_t kMostOps = 20, kMostDevices = 64;

  WindowSearch(const Problem& problem, Random random);

  /// Improves a strict schedule in place and returns whether it did. Leaves schedules of other policies as they are.
  bool run(Schedule& schedule, Outcome& outcome, const Effort& effort);
  /// A node of a window counts as ops of the window / ops of the graph.
  std::uint64_t evaluations() const { return evaluations_; }
  /// Evaluations below which run() is not worth calling, because a window of the mean size would get too few nodes.
  std::uint64_t least_evaluations() const;

 private:
  void read(const Schedule& schedule);
  bool try_window(Schedule& schedule, Outcome& outcome, std::size_t first, std::size_t count, std::uint64_t end,
                  const Effort& effort);
  detail::ExactWindow window_of(const Schedule& schedule, std::size_t first, std::size_t count,
                                std::int64_t& value) const;
  bool within(OpId op, std::size_t first, std::size_t last) const {
    return position_[op] >= first && position_[op] < last;
  }
  std::vector<std::int64_t> surround(const Schedule& schedule, std::size_t last, detail::ExactWindow& window) const;
  void find_arrival(const Schedule& schedule, OpId op, std::size_t first, std::size_t last,
                    std::span<std::int64_t> arrival) const;
  void find_beyond(const Schedule& schedule, OpId op, std::size_t first, std::size_t last,
                   std::span<std::int64_t> beyond) const;
  Schedule with_answer(const Schedule& schedule, std::size_t first, const std::vector<OpId>& ops,
                       const std::vector<std::uint32_t>& device, const std::vector<std::int64_t>& start) const;

  const Problem& problem_;
  Random random_;
  Evaluator evaluator_;
  std::uint64_t evaluations_ = 0, charged_ = 0;

  // Data of the schedule that was read last.
  Timeline timeline_;
  std::vector<OpId> by_start_;
  IdMap<OpId, std::uint32_t> position_;      // in by_start_
  IdMap<OpId, std::int64_t> tail_;           // time after the op's end, by data and device order
  std::vector<std::size_t> first_transfer_;  // by tensor, in timeline_.transfers
  std::vector<std::uint32_t> critical_;      // positions of critical ops
};

}  // namespace trainyard
