#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// Returned in place of the makespan if strict orders contradict the graph and the run stopped.
inline constexpr Nanoseconds kDeadlock{-1};

/// The position of each device in its strict order, and the devices to examine. A Walk provides
///
///     takes_turn(op)         false for an op of zero duration
///     has_all(op)            whether all dependencies of the op are met
///     take_turn(op, device)  runs the op and reports to ready() what it makes ready
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
  /// Reports that all dependencies of an op that takes a turn are met.
  [[gnu::always_inline]] void ready(OpId op, DeviceId device) {
    Turn& turn = devices_[device];
    if (turn.listed || *turn.next != op) return;
    turn.listed = true;
    to_run_.push_back(device);
  }
  /// Runs every op whose turn it is and whose dependencies are met.
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
      // Ops that became ready for the device while it ran were left to the loop above.
      if (turn.next == turn.end) turn.next = turn.end = &kNoOp;
    }
  }
  /// Whether every op that takes a turn has run.
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
