#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>

#include "trainyard/core/error.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/model/run_state.hpp"

namespace trainyard {

/// An op that is ready and waits for its device.
struct Waiting {
  OpId op;
  DeviceId device;
  Nanoseconds ready;  // ready time
  const RunState& run;
};

/// A transfer that is ready and waits for the serial channels of its route; or a waiting collective.
struct WaitingTransfer {
  TensorId tensor;                  // none: a collective
  DeviceId from, to;                // on a broadcasting egress, `to` is the lowest device that it serves
  std::span<const OpId> consumers;  // the tensor's consumers on the devices served; or the collective's members
  const RunState& run;
};

// Concepts for the functions of a rule; DispatchRule, below, describes them.

template <class Rule>
concept OrdersOps = requires(const Rule& rule, const Waiting& a, const Waiting& b) {
  { rule.before(a, b) } -> std::convertible_to<bool>;
};
template <class Rule>
concept HoldsBack = requires(const Rule& rule, const Waiting& first) {
  { rule.holds_back(first) } -> std::convertible_to<bool>;
};
template <class Rule>
concept RanksTransfers = requires(const Rule& rule, const WaitingTransfer& transfer) {
  { rule.urgency(transfer) } -> std::convertible_to<double>;
};

namespace detail {
template <class Rule>
concept MisdeclaresHoldsBack = !HoldsBack<Rule> && requires {
  &Rule::holds_back;
};
template <class Rule>
concept MisdeclaresUrgency = !RanksTransfers<Rule> && requires {
  &Rule::urgency;
};
template <class Rule>
concept FixedOrder = requires {
  requires Rule::fixed;
};
}  // namespace detail

/// The choice of a device among the ops that wait for it. A rule has one function:
///
///     before(a, b)       whether a goes before b: a strict weak order of the ops that wait for one device. Ties go to
///                        the op that became ready first, then to the lower id
///
/// The order may depend on what has run so far (Waiting::run). A device calls the rule whenever it is idle and ops
/// wait, in time proportional to their number. At one instant devices call it in ascending id. Three members are
/// optional:
///
///     holds_back(first)  whether the device stays idle instead of running `first`, the first op of those that wait. It
///                        asks again at the next instant at which a task becomes ready or ends, on any device or link
///     urgency(transfer)  transfers take their channels by descending urgency, evaluated once, when they become ready;
///                        without it, links are fifo. NaN ends the run with InputError ("not-a-number")
///     static constexpr bool fixed = true
///                        the relative order of two ops never changes while both wait; then finding the first op takes
///                        logarithmic time
///
/// A rule is const and may be called from many threads: it gets the state of a run from Waiting::run. Example, the rule
/// that frees the most memory first:
///
///     struct FreesMost {
///       bool before(const Waiting& a, const Waiting& b) const { return a.run.frees(a.op) > b.run.frees(b.op); }
///     };
///
/// A type with one of these members but with the wrong signature is not a rule, so that the member is not silently
/// ignored.
template <class Rule>
concept DispatchRule = std::copy_constructible<Rule> && OrdersOps<Rule> && !detail::MisdeclaresHoldsBack<Rule> &&
                       !detail::MisdeclaresUrgency<Rule>;

// --- the three rules of a schedule ---

/// Policy::fifo: by (ready time, id), also on links.
struct Fifo {
  static constexpr bool fixed = true;
  bool before(const Waiting&, const Waiting&) const { return false; }
};

/// Policy::priority: by descending priority; ops beyond the end of the list have priority 0. A transfer has the
/// priority of its most urgent consumer.
struct Priority {
  IdMap<OpId, double> priority;

  static constexpr bool fixed = true;
  double of(OpId op) const { return op.index() < priority.size() ? priority[op] : 0; }
  bool before(const Waiting& a, const Waiting& b) const { return of(a.op) > of(b.op); }
  double urgency(const WaitingTransfer& transfer) const {
    double most = transfer.consumers.empty() ? 0 : of(transfer.consumers.front());
    for (const OpId consumer : transfer.consumers) most = std::max(most, of(consumer));
    return most;
  }
};

/// Policy::strict: each device runs its ops in a given order and waits if the next one is not ready. Ops of zero
/// duration take no turn. Links are fifo.
class Strict {
 public:
  /// `durations`: op times by op id in place of the problem's; null: the problem's. Throws InputError ("order") if the
  /// schedule's order does not match the problem's devices and ops.
  Strict(const Problem& problem, const Schedule& schedule, const Nanoseconds* durations = nullptr)
      : turn_(problem.op_count()) {
    const auto check = [](bool fits) {
      if (!fits)
        refuse("order", "the strict order is for other devices or ops than the problem's",
               "give a schedule of policy strict for the problem");
    };
    check(schedule.order.size() == problem.device_count());
    for (const DeviceId device : problem.devices()) {
      std::uint32_t turn = 0;
      for (const OpId op : schedule.order[device]) {
        check(op.index() < problem.op_count());
        if ((durations == nullptr ? problem.duration(op, device) : durations[op.index()]) != Nanoseconds{0})
          turn_[op] = turn++;
      }
    }
  }

  static constexpr bool fixed = true;
  bool before(const Waiting& a, const Waiting& b) const { return turn_[a.op] < turn_[b.op]; }
  bool holds_back(const Waiting& first) const { return turn_[first.op] != first.run.started(first.device); }

 private:
  IdMap<OpId, std::uint32_t> turn_;  // number of ops that the device runs before it
};

namespace detail {
/// Whether an op that a device holds back may run after an event elsewhere. Under strict orders it may not: it waits
/// for the op whose turn it is.
template <class Rule>
concept AsksAgain = HoldsBack<Rule> && !std::derived_from<Rule, Strict>;
}  // namespace detail

/// Policy::strict with Schedule::urgent_links: devices like Strict, links like Priority.
class UrgentStrict : public Strict {
 public:
  UrgentStrict(const Problem& problem, const Schedule& schedule, const Nanoseconds* durations = nullptr)
      : Strict(problem, schedule, durations), priority_{schedule.priority} {}

  double urgency(const WaitingTransfer& transfer) const { return priority_.urgency(transfer); }

 private:
  Priority priority_;
};

}  // namespace trainyard
