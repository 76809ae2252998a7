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

/// An op that is ready, and waits for its device.
struct Waiting {
  OpId op;
  DeviceId device;
  Nanoseconds ready;  // since when
  const RunState& run;
};

/// A transfer that is ready, and waits for the serial channels of its route; or a collective.
struct WaitingTransfer {
  TensorId tensor;                  // none: a collective
  DeviceId from, to;                // on a broadcasting egress, `to` is the lowest of those that it serves
  std::span<const OpId> consumers;  // the tensor's, on the devices that it serves; a collective's members
  const RunState& run;
};

// Functions that a rule may have; DispatchRule, below, says what each does.

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

/// Choice of a device among the ops that wait for it. One function:
///
///     before(a, b)       a goes before b: a strict weak order of what waits for one device. Ties go to the op that
///                        became ready first, then to the lower id
///
/// The order may depend on what has run so far (Waiting::run): a device asks whenever it is idle and something waits,
/// which takes time in proportion to what waits. Devices that ask at one instant ask by ascending id. Three members are
/// optional:
///
///     holds_back(first)  the device stays idle rather than run `first`, which goes before all others that wait, and
///                        asks again at the next instant at which a task becomes ready or ends, on any device or link
///     urgency(transfer)  transfers take their channels by descending urgency, given once, when they become ready;
///                        without it, links are fifo. Not a number: the run ends with InputError ("not-a-number")
///     static constexpr bool fixed = true
///                        two ops keep their order as long as both wait: the first is found in logarithmic time
///
/// A rule is const, and many threads may ask it: what it needs to know of a run it reads off Waiting::run. Most memory
/// freed first:
///
///     struct FreesMost {
///       bool before(const Waiting& a, const Waiting& b) const { return a.run.frees(a.op) > b.run.frees(b.op); }
///     };
///
/// A member that is there, but cannot be called so, makes the type no rule: it would be overlooked.
template <class Rule>
concept DispatchRule = std::copy_constructible<Rule> && OrdersOps<Rule> && !detail::MisdeclaresHoldsBack<Rule> &&
                       !detail::MisdeclaresUrgency<Rule>;

// --- the three rules of a schedule ---

/// Policy::fifo: by (ready time, id), links too.
struct Fifo {
  static constexpr bool fixed = true;
  bool before(const Waiting&, const Waiting&) const { return false; }
};

/// Policy::priority: by descending priority, 0 beyond the end of the list. A transfer has that of its most urgent
/// consumer.
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

/// Policy::strict: each device runs its ops in a given order, and waits where the next one is not ready. Ops of zero
/// duration take no turn. Links are fifo.
class Strict {
 public:
  /// `durations`: by op id, in place of the problem's; null: the problem's. Throws InputError ("order") where the
  /// schedule's order is not of the problem's devices and ops.
  Strict(const Problem& problem, const Schedule& schedule, const Nanoseconds* durations = nullptr)
      : turn_(problem.op_count()) {
    const auto check = [](bool fits) {
      if (!fits)
        refuse("order", "the rule of strict orders has one of other devices or ops",
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
  IdMap<OpId, std::uint32_t> turn_;  // how many ops of the device run before it
};

namespace detail {
/// What a device holds back may run once something has happened elsewhere. Not so with strict orders: what is held back
/// there waits for the op whose turn it is.
template <class Rule>
concept AsksAgain = HoldsBack<Rule> && !std::derived_from<Rule, Strict>;
}  // namespace detail

/// Policy::strict with Schedule::urgent_links: devices as Strict, links as Priority.
class UrgentStrict : public Strict {
 public:
  UrgentStrict(const Problem& problem, const Schedule& schedule, const Nanoseconds* durations = nullptr)
      : Strict(problem, schedule, durations), priority_{schedule.priority} {}

  double urgency(const WaitingTransfer& transfer) const { return priority_.urgency(transfer); }

 private:
  Priority priority_;
};

}  // namespace trainyard
