#include "profiler/validate/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "profiler/clock.hpp"
#include "profiler/validate/judge.hpp"
#include "profiler/validate/outputs.hpp"
#include "trainyard/simulate/account/memory_curve.hpp"
#include "trainyard/simulate/account/out_of_memory.hpp"
#include "trainyard/simulate/account/usage.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostSpans = 10'000'000;  // op spans in the timelines kept of a schedule

/// One schedule and the observations of its runs.
struct Candidate {
  std::unique_ptr<PreparedRun> run;
  MeasuredRuns runs;
  std::size_t clean = 0, structural = 0;

  bool enough(const ValidateOptions& options) const {
    return clean >= options.least_clean_steps && structural >= options.least_clean_steps;
  }
};

Timeline timeline_of(const StepTrace& trace, const Problem& problem, const Placement& placement) {
  Timeline timeline;
  timeline.makespan = trace.makespan;
  timeline.ops = trace.ops;
  timeline.transfers = trace.transfers;
  timeline.devices = IdMap<DeviceId, DeviceUse>(problem.device_count());
  timeline.channels = IdMap<ChannelId, ChannelUse>(problem.cluster().channel_count());
  detail::account_usage(problem, placement, timeline);
  const auto curves = memory_curves(problem, placement, timeline);
  for (const DeviceId device : problem.devices()) {
    timeline.devices[device].peak = trace.peak[device];
    timeline.devices[device].peak_at = std::ranges::max_element(curves[device], {}, &MemoryPoint::held)->at;
  }
  return timeline;
}

/// The order without collectives and ops that took no time: these occupy no device.
std::vector<OpId> timed(const Graph& graph, std::vector<OpId> order, const StepTrace& trace) {
  std::erase_if(order, [&](OpId op) { return graph.collective(op) || trace.ops[op].start == trace.ops[op].end; });
  return order;
}

/// The first violation in words, or "". Strict orders must be kept, ops of a device must not overlap, and an op must
/// start after its inputs and predecessors, up to the clock skew between devices.
std::string order_fault(const Problem& problem, const Schedule& schedule, const StepTrace& trace) {
  if (!trace.hazards.empty()) return trace.hazards.front();
  const Graph& graph = problem.graph();
  for (const DeviceId device : problem.devices()) {
    if (schedule.policy == Policy::strict && trace.order[device] != timed(graph, schedule.order[device], trace))
      return fmt::format("{} did not run its ops in the order of the schedule", problem.cluster().device(device).name);
    for (std::size_t i = 1; i < trace.order[device].size(); ++i)
      if (trace.ops[trace.order[device][i]].start < trace.ops[trace.order[device][i - 1]].end)
        return fmt::format("'{}' overlaps the op before it", graph.name(trace.order[device][i]));
  }
  const auto too_early = [&](OpId op, Nanoseconds end, DeviceId on) {
    const bool one_clock = schedule.placement[op] == on;
    return trace.ops[op].start + (one_clock ? Nanoseconds{0} : trace.clock_skew) < end;
  };
  for (const OpId op : graph.ops()) {
    for (const TensorId tensor : graph.inputs(op))
      if (too_early(op, trace.ops[graph.producer(tensor)].end, schedule.placement[graph.producer(tensor)]))
        return fmt::format("'{}' started before '{}' was produced", graph.name(op), graph.name(tensor));
    for (const OpId before : graph.after(op))
      if (too_early(op, trace.ops[before].end, schedule.placement[before]))
        return fmt::format("'{}' started before '{}' had ended", graph.name(op), graph.name(before));
  }
  for (const Transfer& transfer : trace.transfers)
    for (const OpId consumer : graph.consumers(transfer.tensor))
      if (schedule.placement[consumer] == transfer.to && too_early(consumer, transfer.end, transfer.from))
        return fmt::format("'{}' started before '{}' had arrived", graph.name(consumer), graph.name(transfer.tensor));
  return "";
}

void take(const Problem& problem, const StepTrace& trace, Candidate& candidate, Validation& result) {
  candidate.runs.steps.push_back(measured_step(trace));
  const MeasuredStep& step = candidate.runs.steps.back();
  if (step.dropped.empty()) ++candidate.clean;
  if (!step.scattered) ++candidate.structural;
  if (result.order_kept) {
    result.order_fault = order_fault(problem, *candidate.runs.schedule, trace);
    result.order_kept = result.order_fault.empty();
  }
  result.allocated = std::max(result.allocated, trace.allocated);
  if (result.measured_peak.empty()) result.measured_peak = IdMap<DeviceId, Bytes>(problem.device_count());
  if (candidate.runs.gaps.empty()) candidate.runs.gaps.assign(problem.device_count(), {});
  for (const DeviceId device : problem.devices()) {
    result.measured_peak[device] = std::max(result.measured_peak[device], trace.peak[device]);
    if (trace.gaps.empty() || trace.gaps[device].count == 0) continue;
    candidate.runs.gaps[device].push_back(static_cast<double>(trace.gaps[device].sum.count) /
                                          static_cast<double>(trace.gaps[device].count));
  }
  // Once a step is clean, only timelines of clean steps are kept.
  auto& timelines = candidate.runs.timelines;
  if (step.dropped.empty() && candidate.clean == 1) timelines.clear();
  if ((step.dropped.empty() || candidate.clean == 0) && timelines.size() * problem.op_count() < kMostSpans)
    timelines.emplace_back(trace.makespan, timeline_of(trace, problem, candidate.runs.schedule->placement));
}

}  // namespace

std::vector<Validation> validate(Backend& backend, const Problem& problem, const Workload& workload,
                                 const std::vector<std::pair<std::string, Schedule>>& schedules,
                                 const ValidateOptions& options) {
  std::vector<Validation> results(schedules.size());
  std::optional<OutputCheck> outputs;
  if (workload.recipe) outputs.emplace(backend, problem, workload);
  std::vector<Candidate> candidates;
  Nanoseconds slowest{0};
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    results[i].name = schedules[i].first;
    candidates.push_back(
        {.run = backend.prepare(problem, workload, schedules[i].second),
         .runs = {.schedule = &schedules[i].second, .steps = {}, .timelines = {}, .gaps = {}, .plain = {}}});
    const StepTrace& first = candidates.back().run->step();
    slowest = std::max(slowest, first.makespan);
    if (const std::optional<bool> told = candidates.back().run->outputs_agree())
      results[i].outputs_agree = *told;
    else if (outputs)
      results[i].outputs_agree = outputs->agrees(schedules[i].second, *candidates.back().run, first.loss);
  }
  const std::int64_t until = now_ns() + options.most_ns;
  // If steps take seconds, the first one was enough warm-up.
  const bool slow = slowest.count > options.most_ns / (4 * (options.warm + options.measured));
  const int warm = slow ? 0 : options.warm, measured = slow ? 1 : options.measured;
  const auto more = [&](const Candidate& candidate, int round) {
    return round < options.rounds || !candidate.enough(options);
  };
  for (int round = 0; round < options.most_rounds && (round == 0 || now_ns() < until); ++round) {
    bool any = false;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Candidate& candidate = candidates[i];
      if (!more(candidate, round)) continue;
      any = true;
      for (int k = 0; k < warm; ++k) candidate.run->step();
      for (int k = 0; k < measured; ++k) {
        take(problem, candidate.run->step(), candidate, results[i]);
        if (!candidate.runs.steps.back().dropped.empty()) continue;
        if (const auto plain = candidate.run->plain_step()) candidate.runs.plain.push_back(*plain);
      }
    }
    if (!any) break;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    drop_slow_steps(candidates[i].runs);
    judge(problem, candidates[i].runs, options, results[i]);
    detail::diagnose_memory(problem, schedules[i].second.placement, results[i].timeline);
  }
  return results;
}

}  // namespace trainyard
