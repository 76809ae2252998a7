#pragma once

#include <functional>
#include <optional>
#include <span>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Makespans of one fixed schedule with each device of the cluster slow in turn:
///
///     T         makespan without a slow device
///     T(d)      makespan if ops on device d take `factor` times as long; T if device d runs no ops
///     mean      sum over d of T(d) / (n T), with n devices
///     worst     max over d of T(d) / T, at the lowest such d
///     K(d)      least of T(d) and the makespan of a new placement for the cluster with slow device d
///     known     sum over d of K(d) / (n T)
///     regret    sum over d of T(d) / best(d) / n - 1, with best(d) the least T(d) and K(d) of several schedules
struct Stragglers {
  double factor = 1;
  IdMap<DeviceId, Nanoseconds> steps = {};  // T(d)
  double mean = 1, worst = 1;
  DeviceId worst_device{};
  IdMap<DeviceId, Nanoseconds> placed_again = {};  // K(d), set by place_again()
  std::optional<double> known = {};
  std::optional<double> regret = {};  // set by set_regrets()

  friend bool operator==(const Stragglers&, const Stragglers&) = default;
};

/// Runs one full simulation for each device that runs ops. `problem` has the schedule's rewrites applied. Returns
/// nothing if the schedule is folded, since a device that stands for others cannot be slow alone. Throws InputError
/// ("range") for a factor outside of 1 to 1000; also as Problem and simulate() do.
std::optional<Stragglers> simulate_stragglers(const Problem& problem, const Schedule& schedule, double factor,
                                              unsigned threads = 1);

/// The problem with each op on the device taking `factor` times as long. Throws InputError ("unknown-device"; "range"
/// for a factor that is not finite and positive).
Problem with_slow_device(const Problem& problem, DeviceId device, double factor);

/// Sets Stragglers::placed_again and known. For each device that runs ops, `place` returns a schedule of its argument:
/// the problem `given` with that device slow. The schedule is ignored if it does not fit in memory, or if `place` or
/// the simulation throws a std::exception. Throws InputError ("size") if the number of `stragglers.steps` is not the
/// number of the problem's devices.
void place_again(Stragglers& stragglers, const Problem& given, const Problem& problem, const Schedule& schedule,
                 const std::function<Schedule(const Problem&)>& place);

/// Sets Stragglers::regret of several schedules on one cluster with one factor.
void set_regrets(std::span<Stragglers* const> all);

}  // namespace trainyard
