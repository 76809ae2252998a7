#pragma once

#include <functional>
#include <optional>
#include <span>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The step of a schedule that does not know which device is slow, with each device of the cluster slow in turn:
///
///     T, T(d)   makespan without a slow device; where ops on device d take `factor` times as long, which is T for a
///               device that runs none
///     mean      sum over d of T(d) / (n T), with n devices
///     worst     max over d of T(d) / T, at the lowest such d
///     K(d)      T(d), or less where the placer knows of d and does better
///     known     sum over d of K(d) / (n T)
///     regret    sum over d of T(d) / best(d) / n - 1, with best(d) the least T(d) and K(d) of several schedules
struct Stragglers {
  double factor = 1;
  IdMap<DeviceId, Nanoseconds> steps = {};  // T(d)
  double mean = 1, worst = 1;
  DeviceId worst_device{};
  IdMap<DeviceId, Nanoseconds> placed_again = {};  // K(d), where asked for
  std::optional<double> known = {};
  std::optional<double> regret = {};  // set_regrets()

  friend bool operator==(const Stragglers&, const Stragglers&) = default;
};

/// `problem` is the scheduled one, with the schedule's rewrites applied. Nothing where the schedule is folded: a device
/// that stands for others cannot be slow alone. A whole simulation for each device that runs ops. Throws InputError
/// ("range") for a factor outside of 1 to 1000; as Problem and simulate() do.
std::optional<Stragglers> simulate_stragglers(const Problem& problem, const Schedule& schedule, double factor,
                                              unsigned threads = 1);

/// The problem where each op on the device takes `factor` times as long. Throws InputError ("unknown-device"; "range"
/// for a factor that is not finite and more than 0).
Problem with_slow_device(const Problem& problem, DeviceId device, double factor);

/// Stragglers::placed_again and known: `place` gives a schedule of the problem that it gets, `given` with the device
/// slow, for each device that runs ops. One that does not fit in memory counts as none, and so does a std::exception
/// that it or its simulation throws. InputError ("size"): `stragglers` has no steps of the problem's devices.
void place_again(Stragglers& stragglers, const Problem& given, const Problem& problem, const Schedule& schedule,
                 const std::function<Schedule(const Problem&)>& place);

/// Stragglers::regret of several schedules on one cluster with one factor.
void set_regrets(std::span<Stragglers* const> all);

}  // namespace trainyard
