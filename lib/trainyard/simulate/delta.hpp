#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

/// The outcome of a change of the schedule.
struct DeltaResult {
  enum class Outcome : std::uint8_t {
    complete,  // `makespan` is exact, and not above the limit
    above,     // the makespan is above the limit; `makespan` is a lower bound of it
    deadlock,  // the strict orders contradict the graph; there is no makespan, and `makespan` is kLongestTime
  };
  Outcome outcome;
  Nanoseconds makespan;

  bool complete() const { return outcome == Outcome::complete; }
  friend bool operator==(const DeltaResult&, const DeltaResult&) = default;
};

/// Incremental simulation, for searches that change a schedule a little at a time: each change gives the makespan that
/// simulate() would give, bit for bit, for a fraction of the work.
///
/// The run of the schedule is kept, with snapshots of the state on the way. A change is simulated from the last
/// snapshot before it can make a difference (nothing can change before the moved op's producers end; most often,
/// nothing does before the op itself could start) until the state is the old run's, shifted by a constant: from there
/// on, the whole run is. Under policy `priority`, with urgent links, on clusters with fair links, and with collectives
/// or interference, every change is a full simulation.
///
///     DeltaSimulation run{problem, schedule};
///     const DeltaResult result = run.try_move(ops, device, run.makespan());
///     if (result.complete()) run.accept();
///
/// A complete change is in force until it is accepted or rejected; to try another one rejects it. Any other change has
/// left no trace, and there is nothing to accept or reject then.
///
/// Measured by bench/delta.cpp, single ops moved at random among 20,000 on 8 devices, under fifo: 1/80 of a full
/// simulation on a chain of fork-joins, 1/10 on layers of 32 ops, 1/6 on a transformer's step. Where all devices are
/// backlogged, a change delays or advances all that follows by different amounts, and the gain is the part before it:
/// 1/1.8 on layers of 512 ops.
///
/// One per thread; a copy shares the prepared problem. The schedule must have passed check_schedule, and changes must
/// keep to it: groups move as one. A change throws InputError for an op or a device that the problem does not have
/// ("unknown-op", "unknown-device"), and a device that cannot run the op ("no-device").
class DeltaSimulation {
 public:
  /// Throws InputError ("own-rule") where the schedule has a rule of the caller's own: only the engines of the three
  /// policies start again in the middle of a run. And as check_sizes() does.
  DeltaSimulation(const Problem& problem, Schedule schedule);
  DeltaSimulation(const DeltaSimulation& other);
  DeltaSimulation& operator=(const DeltaSimulation& other);
  DeltaSimulation(DeltaSimulation&&) noexcept;
  DeltaSimulation& operator=(DeltaSimulation&&) noexcept;
  ~DeltaSimulation();

  const Problem& problem() const;
  /// The schedule, with the change in force if there is one.
  const Schedule& schedule();
  Nanoseconds makespan() const;
  /// Simulation::peaks() of schedule(), at the cost of a pass over the whole run, and of a full simulation where a
  /// change is in force. Valid until the next call.
  const MemoryPeaks& peaks();
  Timeline timeline();

  static constexpr Nanoseconds kNoLimit = kLongestTime;

  /// Moves the ops to the device. Under policy `strict` each takes its turn behind all that started there before it
  /// could start, which never deadlocks.
  DeltaResult try_move(std::span<const OpId> ops, DeviceId to, Nanoseconds limit = kNoLimit);
  /// Policy `strict`: puts the op right behind another op of the device in its order; nullopt: first. The op may be on
  /// the device already. This and try_swap() throw InputError ("order") where the schedule has another policy
  /// (in_started_order() of place/judge/orders.hpp makes it strict), or the ops no places in the order of one device.
  DeltaResult try_move(OpId op, DeviceId to, std::optional<OpId> behind, Nanoseconds limit = kNoLimit);
  /// Policy `strict`: two ops of one device change places in its order.
  DeltaResult try_swap(OpId a, OpId b, Nanoseconds limit = kNoLimit);
  /// Policy `priority`: gives the op this priority, which is finite. No difference under other policies.
  DeltaResult try_priority(OpId op, double priority, Nanoseconds limit = kNoLimit);

  /// The change in force, if any, becomes part of the schedule.
  void accept();
  /// Back to the schedule before the change in force, if any.
  void reject();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
