#pragma once

#include <optional>
#include <span>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The step of a schedule that does not know which device is slow, with each device of the cluster slow in turn:
///
///     T(d)    makespan of the schedule where each op on device d takes `factor` times as long
///     mean    sum over d of T(d) / (n T)         T: the makespan without, n devices; one that runs nothing has T(d) =
///     T worst   max over d of T(d) / T, at the lowest such d regret  sum over d of T(d) / best(d) / n - 1     best(d):
///     the least T(d) of several schedules
struct Stragglers {
  double factor = 1;
  IdMap<DeviceId, Nanoseconds> steps = {};  // T(d)
  double mean = 1, worst = 1;
  DeviceId worst_device{};
  std::optional<double> regret = {};  // set_regrets()

  friend bool operator==(const Stragglers&, const Stragglers&) = default;
};

/// `problem` is the scheduled one, with the schedule's rewrites applied. Nothing where the schedule is folded: a device
/// that stands for others cannot be slow alone. A whole simulation for each device that runs ops. Throws InputError
/// ("range") for a factor outside of 1 to 1000; as Problem and simulate() do.
std::optional<Stragglers> simulate_stragglers(const Problem& problem, const Schedule& schedule, double factor,
                                              unsigned threads = 1);

/// Stragglers::regret of several schedules on one cluster with one factor.
void set_regrets(std::span<Stragglers* const> all);

}  // namespace trainyard
