#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "profiler/clock.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/measure/op_samples.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard {

Schedule serial_schedule(const Problem& problem, DeviceId device) {
  Schedule schedule{.placement = {}, .rewrites = problem.rewrites()};
  schedule.placement = Placement(problem.op_count(), device);
  schedule.policy = Policy::strict;
  schedule.order = IdMap<DeviceId, std::vector<OpId>>(problem.device_count());
  schedule.order[device] = problem.graph().topological_order();
  return schedule;
}

void measure_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                   const ProfileOptions& options, Profile& profile) {
  const Graph& graph = problem.graph();
  const auto run = backend.prepare(problem, workload, schedule);
  IdMap<OpId, OpSamples> ops(graph.op_count());
  std::map<std::string, std::set<DeviceId>> busy;  // by class: GPUs and CPUs share no memory
  for (const OpId op : graph.ops())
    busy[problem.cluster().device(schedule.placement[op]).device_class].insert(schedule.placement[op]);
  IdMap<DeviceId, Samples> gaps(problem.device_count());
  Samples steps, plain;
  // If steps take seconds, the first one is enough warm-up.
  const bool slow = run->step().makespan.count > options.most_ns / (4 * (options.warm + options.measured));
  const int warm = slow ? 0 : options.warm, measured = slow ? 1 : options.measured;
  constexpr std::size_t kLeastClean = 6;
  std::size_t fewest = 0;
  const std::int64_t until = now_ns() + options.most_ns;
  for (int round = 0; (round < options.rounds || (fewest < kLeastClean && round < 20 * options.rounds)) &&
                      (round == 0 || now_ns() < until);
       ++round) {
    for (int i = 0; i < warm; ++i) run->step();
    for (int i = 0; i < measured; ++i) {
      const StepTrace& trace = run->step();
      // Time that one op lost to other work does not affect the times of the others.
      for (const OpId op : graph.ops()) {
        const Nanoseconds time = trace.ops[op].end - trace.ops[op].start;
        if (!trace.times_launches) ops[op].put(time, trace.lost.empty() ? Nanoseconds{0} : trace.lost[op]);
      }
      put(steps, trace.makespan, trace.contaminated);
      const bool clean = trace.contaminated.empty();
      for (const DeviceId device : problem.devices())
        if (!trace.gaps.empty() && trace.gaps[device].count > 0)
          put(gaps[device], Nanoseconds{trace.gaps[device].sum.count / trace.gaps[device].count}, "");
      if (const auto untimed = clean ? run->plain_step() : std::nullopt) put(plain, *untimed, "");
    }
    fewest = static_cast<std::size_t>(-1);
    for (const OpSamples& samples : ops) fewest = std::min(fewest, samples.undisturbed());
  }
  std::int64_t timed = 0;
  for (const OpId op : graph.ops()) {
    if (graph.type(op) == "Input") continue;  // not part of the simulated step
    ++timed;
    const DeviceId device = schedule.placement[op];
    profile.ops.push_back(op_measurement(problem, op, device, MeasureMode::step,
                                         backend.clock(problem.cluster().device(device)), ops[op]));
    profile.ops.back().busy_devices = std::ssize(busy[problem.cluster().device(device).device_class]);
  }
  // If timing ops lengthens steps, gaps follow from the untimed steps: their time beyond the ops.
  const bool in_steps = !plain.kept.empty();
  if (in_steps) steps = std::move(plain);
  for (const DeviceId device : problem.devices())
    if (!gaps[device].kept.empty() && !in_steps)
      profile.overheads.push_back(
          {.device = problem.cluster().device(device).name, .what = "gap", .samples = std::move(gaps[device])});
  if (busy.size() == 1 && busy.begin()->second.size() == 1)
    profile.steps.push_back({.graph = graph.name(),
                             .device = problem.cluster().device(schedule.placement[OpId{0}]).name,
                             .ops = timed,
                             .samples = std::move(steps)});
}

void measure_beside_copies(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                           const ProfileOptions& options, Profile& profile) {
  const DeviceId device = schedule.placement[OpId{0}];
  const bool alone =
      std::all_of(schedule.placement.begin(), schedule.placement.end(), [&](DeviceId each) { return each == device; });
  if (!alone || problem.cluster().device(device).device_class != "gpu") return;
  const auto run = backend.prepare_beside_copies(problem, workload, schedule);
  if (!run) return;
  constexpr int kWarm = 3;  // to find how many copies a step needs
  IdMap<OpId, OpSamples> ops(problem.op_count());
  Samples plain;
  double copied = 0;
  int steps = 0;
  const int wanted = options.rounds * options.measured;
  try {
    for (int i = -kWarm; i < 2 * wanted && steps < wanted; ++i) {
      const StepTrace& trace = run->step();
      if (i < 0 || !trace.contaminated.empty() || trace.times_launches) continue;
      for (const OpId op : problem.ops()) ops[op].put(trace.ops[op].end - trace.ops[op].start, Nanoseconds{0});
      copied += trace.copied.value;
      ++steps;
      if (const auto untimed = run->plain_step()) put(plain, *untimed, "");
    }
  } catch (const MissingError& error) {
    profile.devices[device.index()].details["beside copies"] = std::string{"not measured: "} + error.what();
    return;
  }
  if (steps < 3) return;
  std::int64_t timed = 0;
  for (const OpId op : problem.ops()) {
    if (problem.graph().type(op) == "Input") continue;
    ++timed;
    profile.ops.push_back(op_measurement(problem, op, device, MeasureMode::step,
                                         backend.clock(problem.cluster().device(device)), ops[op]));
    profile.ops.back().copied = BytesPerSecond{copied / steps};
  }
  if (!plain.kept.empty())
    profile.steps.push_back({.graph = problem.graph().name(),
                             .device = problem.cluster().device(device).name,
                             .ops = timed,
                             .copied = BytesPerSecond{copied / steps},
                             .samples = std::move(plain)});
}

}  // namespace trainyard
