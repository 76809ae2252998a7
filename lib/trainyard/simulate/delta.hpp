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

/// Result of simulating a change of the schedule.
struct DeltaResult {
  enum class Outcome : std::uint8_t {
    complete,  // `makespan` is exact and at most the limit
    above,     // the makespan is above the limit; `makespan` is a lower bound
    deadlock,  // the strict orders contradict the graph; `makespan` is kLongestTime
  };
  Outcome outcome;
  Nanoseconds makespan;

  bool complete() const { return outcome == Outcome::complete; }
  friend bool operator==(const DeltaResult&, const DeltaResult&) = default;
};

/// Incremental simulation for searches that change a schedule in small steps. Each change yields exactly the makespan
/// of simulate(), for a fraction of the work.
///
/// Keeps the run of the schedule, with snapshots of its state. A change is simulated from the last snapshot before it
/// can make a difference: never before the producers of a moved op end, and usually not before the op itself could
/// start. The simulation stops when the state equals that of the old run, shifted by a constant, because then the rest
/// of the run is the same too. Every change is a full simulation under policy `priority`, with urgent links, on
/// clusters with fair links, and with collectives or interference.
///
///     DeltaSimulation run{problem, schedule};
///     const DeltaResult result = run.try_move(ops, device, run.makespan());
///     if (result.complete()) run.accept();
///
/// A complete change stays applied until it is accepted or rejected; trying another change rejects it. A change with
/// any other outcome is undone at once, so there is nothing to accept or reject.
///
/// Measured by bench/delta.cpp for random moves of single ops, 20,000 ops on 8 devices, fifo, as fractions of a full
/// simulation: 1/80 on a chain of fork-joins, 1/10 on layers of 32 ops, 1/6 on a transformer's step. If all devices
/// have a backlog, a change delays or advances everything after it by different amounts, and only the part before it is
/// saved: 1/1.8 on layers of 512 ops.
///
/// Use one object per thread; a copy shares the prepared problem. The schedule must have passed check_schedule(), and
/// changes must keep it valid: move all ops of a group together. A change throws InputError for an op or a device that
/// the problem does not have ("unknown-op", "unknown-device"), or a device that cannot run the op ("no-device").
class DeltaSimulation {
 public:
  /// Throws InputError ("own-rule") if the schedule has a user-defined rule, since only the engines of the three
  /// policies can restart in the middle of a run. Also throws like check_sizes() and check_placement().
  DeltaSimulation(const Problem& problem, Schedule schedule);
  DeltaSimulation(const DeltaSimulation& other);
  DeltaSimulation& operator=(const DeltaSimulation& other);
  DeltaSimulation(DeltaSimulation&&) noexcept;
  DeltaSimulation& operator=(DeltaSimulation&&) noexcept;
  ~DeltaSimulation();

  const Problem& problem() const;
  /// The schedule, including a change that is neither accepted nor rejected yet.
  const Schedule& schedule();
  Nanoseconds makespan() const;
  /// Simulation::peaks() of schedule(). Costs a pass over the whole run, or a full simulation if a change is pending.
  /// Valid until the next call.
  const MemoryPeaks& peaks();
  Timeline timeline();

  static constexpr Nanoseconds kNoLimit = kLongestTime;

  /// Moves the ops to the device. Under policy `strict`, each op is inserted into the device's order behind all ops
  /// that started there before it could start, which never causes a deadlock.
  DeltaResult try_move(std::span<const OpId> ops, DeviceId to, Nanoseconds limit = kNoLimit);
  /// Policy `strict`: moves the op right behind another op in the order of the device; nullopt: to the front. The op
  /// may already be on the device. This and try_swap() throw InputError ("order") if the schedule has another policy
  /// (in_started_order() of place/judge/orders.hpp makes it strict) or if the ops are not in the order of one device.
  DeltaResult try_move(OpId op, DeviceId to, std::optional<OpId> behind, Nanoseconds limit = kNoLimit);
  /// Policy `strict`: swaps two ops in the order of their device.
  DeltaResult try_swap(OpId a, OpId b, Nanoseconds limit = kNoLimit);
  /// Policy `priority`: sets the priority of the op to a finite value. Has no effect under other policies.
  DeltaResult try_priority(OpId op, double priority, Nanoseconds limit = kNoLimit);

  /// Makes the pending change, if any, part of the schedule.
  void accept();
  /// Undoes the pending change, if any.
  void reject();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
