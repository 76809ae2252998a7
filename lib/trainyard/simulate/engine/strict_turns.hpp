#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// Returned by a run in place of its makespan: strict orders contradict the graph, so that it came to a halt.
inline constexpr Nanoseconds kDeadlock{-1};

/// Position of each device in its strict order, and the devices to look at. A Walk of these turns has
///
///     takes_turn(op)         false: of zero duration
///     has_all(op)            nothing that it waits for is missing
///     take_turn(op, device)  runs it, and tells ready() of what this makes ready
class StrictTurns {
 public:
  explicit StrictTurns(std::size_t count) : devices_(count) { to_run_.reserve(count); }

  template <class Walk>
  void start(const DenseProblem& problem, const Schedule& schedule, const Walk& walk) {
    to_run_.clear();
    for (std::size_t i = devices_.size(); i-- > 0;) {
      const DeviceId device{i};
      const auto& order = schedule.order[device];
      devices_[device] = {order.data(), order.data() + order.size(), true};
      pass(devices_[device], problem, walk);
      to_run_.push_back(device);
    }
  }
  /// The op, which takes its turn, has all that it waits for.
  [[gnu::always_inline]] void ready(OpId op, DeviceId device) {
    Turn& turn = devices_[device];
    if (turn.listed || *turn.next != op) return;
    turn.listed = true;
    to_run_.push_back(device);
  }
  /// Runs every op that has its turn and all that it waits for.
  template <class Walk>
  [[gnu::always_inline]] void run(const DenseProblem& problem, Walk& walk) {
    while (!to_run_.empty()) {
      const DeviceId device = to_run_.back();
      to_run_.pop_back();
      Turn& turn = devices_[device];
      while (turn.next != turn.end) {
        const Position op = problem.position(*turn.next);
        if (!walk.has_all(op)) break;
        ++turn.next;
        pass(turn, problem, walk);
        walk.take_turn(op, device);
      }
      turn.listed = false;
      // While the device ran, ops that became ready for it were left to the loop above.
      if (turn.next == turn.end) turn.next = turn.end = &kNoOp;
    }
  }
  /// Every op that takes a turn has run.
  bool over() const {
    for (const Turn& turn : devices_)
      if (turn.next != turn.end) return false;
    return true;
  }

 private:
  struct Turn {
    const OpId* next = nullptr;
    const OpId* end = nullptr;
    bool listed = false;  // in to_run_, or running
  };
  static constexpr OpId kNoOp = OpId::none();

  template <class Walk>
  [[gnu::always_inline]] static void pass(Turn& turn, const DenseProblem& problem, const Walk& walk) {
    while (turn.next != turn.end && !walk.takes_turn(problem.position(*turn.next))) ++turn.next;
  }

  IdMap<DeviceId, Turn> devices_;
  std::vector<DeviceId> to_run_;
};

}  // namespace trainyard::detail
