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

/// Large-neighbourhood search (Shaw 1998) with branch and bound as its sub-solver: ops that start one after the other
/// around a critical one are placed and ordered anew, all others stay where they are and as they are ordered.
///
/// A window is a problem of its own: each of its ops has, on each device, a time at which what it reads is there, and a
/// time that what follows it takes, by the present run; each device and channel is free from some time on; each group
/// with an op outside stays on its device. The window's optimum is exact but for the links: what others send there at
/// the same time is not seen. So each answer is simulated, and kept where the schedule is no worse.
class WindowSearch {
 public:
  static constexpr std::size_t kMostOps = 20, kMostDevices = 64;

  WindowSearch(const Problem& problem, Random random);

  /// Improves the schedule, which is strict. Returns whether it did.
  bool run(Schedule& schedule, Outcome& outcome, const Effort& effort);
  /// A node of a window counts as the share of the ops that the window is.
  std::uint64_t evaluations() const { return evaluations_; }
  /// Evaluations below which run() is not worth calling: a window of the mean size gets but few nodes.
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

  // The schedule that was read last.
  Timeline timeline_;
  std::vector<OpId> by_start_;
  IdMap<OpId, std::uint32_t> position_;      // in by_start_
  IdMap<OpId, std::int64_t> tail_;           // what follows the op's end, by data and by device
  std::vector<std::size_t> first_transfer_;  // by tensor
  std::vector<std::uint32_t> critical_;      // positions
};

}  // namespace trainyard
