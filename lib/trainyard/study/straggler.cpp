#include "trainyard/study/straggler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

std::vector<DeviceId> devices_in_use(const Problem& problem, const Schedule& schedule) {
  std::vector<bool> runs(problem.device_count(), false);
  for (const DeviceId device : schedule.placement) runs[device.index()] = true;
  std::vector<DeviceId> used;
  for (const DeviceId device : problem.devices())
    if (runs[device.index()]) used.push_back(device);
  return used;
}

double mean_quotient(const IdMap<DeviceId, Nanoseconds>& times, Nanoseconds of) {
  double sum = 0;
  for (const Nanoseconds time : times) sum += relative_to(time, of);
  return sum / static_cast<double>(times.size());
}

}  // namespace

Problem with_slow_device(const Problem& problem, DeviceId device, double factor) {
  if (device.index() >= problem.device_count())
    refuse("unknown-device",
           fmt::format("the slow device is not one of the {} devices of cluster '{}'", problem.device_count(),
                       problem.cluster().name()),
           "devices are numbered from 0");
  Speeds speeds = problem.costs().speeds();
  speeds.devices.try_emplace(problem.cluster().device(device).name, 1.0).first->second /= factor;
  return problem.with_machine(problem.cluster(), problem.costs().at(std::move(speeds)));
}

std::optional<Stragglers> simulate_stragglers(const Problem& problem, const Schedule& schedule, double factor,
                                              unsigned threads) {
  if (!(factor >= 1 && factor <= 1000))
    refuse("range", fmt::format("a slow device must take from 1 to 1000 times as long, not {}", factor),
           "give for example 1.5: ops take one and a half times as long");
  if (folded(schedule.rewrites).devices > 1) return std::nullopt;
  const Nanoseconds whole = simulated_makespan(problem, schedule);
  Stragglers result{.factor = factor, .steps = IdMap<DeviceId, Nanoseconds>(problem.device_count(), whole)};
  const std::vector<DeviceId> used = devices_in_use(problem, schedule);
  std::vector<Nanoseconds> steps(used.size());
  parallel_for(threads, used.size(), [&](std::size_t i) {
    steps[i] = simulated_makespan(with_slow_device(problem, used[i], factor), schedule);
  });
  for (std::size_t i = 0; i < used.size(); ++i) result.steps[used[i]] = steps[i];

  result.worst_device = DeviceId{0};
  for (const DeviceId device : result.steps.ids())
    if (result.steps[device] > result.steps[result.worst_device]) result.worst_device = device;
  result.mean = mean_quotient(result.steps, whole);
  result.worst = relative_to(result.steps[result.worst_device], whole);
  return result;
}

void place_again(Stragglers& stragglers, const Problem& given, const Problem& problem, const Schedule& schedule,
                 const std::function<Schedule(const Problem&)>& place) {
  if (stragglers.steps.size() != problem.device_count())
    refuse("size",
           fmt::format("there are step times for {} slow devices, but cluster '{}' has {} devices",
                       stragglers.steps.size(), problem.cluster().name(), problem.device_count()),
           "give the result of simulate_stragglers() for this schedule");
  check_placement(problem, schedule.placement);
  stragglers.placed_again = stragglers.steps;
  for (const DeviceId device : devices_in_use(problem, schedule)) {
    const Problem slow = with_slow_device(given, device, stragglers.factor);
    try {
      const Schedule placed = place(slow);
      const Timeline timeline = simulate(scheduled_problem(slow, placed), placed);
      Nanoseconds& known = stragglers.placed_again[device];
      if (timeline.fits()) known = std::min(known, timeline.makespan);
    } catch (const std::exception&) {  // no schedule, e.g. for lack of time: T(d) is kept
    }
  }
  stragglers.known = mean_quotient(stragglers.placed_again, simulated_makespan(problem, schedule));
}

void set_regrets(std::span<Stragglers* const> all) {
  if (all.empty()) return;
  IdMap<DeviceId, Nanoseconds> least = all.front()->steps;
  for (const Stragglers* each : all) {
    assert(each->steps.size() == least.size() && each->factor == all.front()->factor);
    for (const DeviceId device : least.ids()) {
      least[device] = std::min(least[device], each->steps[device]);
      if (!each->placed_again.empty()) least[device] = std::min(least[device], each->placed_again[device]);
    }
  }
  for (Stragglers* each : all) {
    double sum = 0;
    for (const DeviceId device : least.ids()) sum += relative_to(each->steps[device], least[device]);
    each->regret = sum / static_cast<double>(least.size()) - 1;
  }
}

}  // namespace trainyard
