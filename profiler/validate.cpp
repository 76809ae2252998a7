#include "profiler/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "profiler/cpu/machine.hpp"
#include "profiler/measure.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {
namespace {

struct Clean {
  Nanoseconds makespan;
  IdMap<OpId, Nanoseconds> durations;
};

/// One schedule and all that is known of its runs.
struct Candidate {
  const Schedule* schedule;
  std::unique_ptr<PreparedRun> run;
  std::vector<Clean> clean;
  std::vector<Nanoseconds> all;  // makespans, contaminated ones too
  std::vector<std::pair<Nanoseconds, Timeline>> steps;
};

double relative(Nanoseconds predicted, Nanoseconds measured) {
  return measured.count == 0
             ? 0
             : static_cast<double>(predicted.count - measured.count) / static_cast<double>(measured.count);
}

template <class T>
T quantile(std::vector<T> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

Timeline timeline_of(const StepTrace& trace, const Problem& problem) {
  Timeline timeline;
  timeline.makespan = trace.makespan;
  timeline.ops = trace.ops;
  timeline.transfers = trace.transfers;
  timeline.devices = IdMap<DeviceId, DeviceUse>(problem.device_count());
  timeline.channels = IdMap<ChannelId, ChannelUse>(problem.cluster().channel_count());
  for (const DeviceId device : problem.devices()) {
    timeline.devices[device].peak = trace.peak[device];
    for (const OpId op : trace.order[device]) timeline.devices[device].busy += trace.ops[op].end - trace.ops[op].start;
  }
  for (const Transfer& transfer : trace.transfers)
    for (const ChannelId channel : problem.cluster().route(transfer.from, transfer.to).channels) {
      timeline.channels[channel].busy += transfer.end - transfer.start;
      timeline.channels[channel].bytes += transfer.bytes;
    }
  return timeline;
}

/// Every op once; after its producers; strict orders as given.
std::string order_fault(const Problem& problem, const Schedule& schedule, const StepTrace& trace) {
  const Graph& graph = problem.graph();
  for (const DeviceId device : problem.devices()) {
    if (schedule.policy == Policy::strict && trace.order[device] != schedule.order[device])
      return fmt::format("{} did not run its ops in the order of the schedule", problem.cluster().device(device).name);
    for (std::size_t i = 1; i < trace.order[device].size(); ++i)
      if (trace.ops[trace.order[device][i]].start < trace.ops[trace.order[device][i - 1]].end)
        return fmt::format("'{}' overlaps the op before it", graph.name(trace.order[device][i]));
  }
  for (const OpId op : graph.ops()) {
    for (const TensorId tensor : graph.inputs(op))
      if (trace.ops[op].start < trace.ops[graph.producer(tensor)].end)
        return fmt::format("'{}' started before '{}' was made", graph.name(op), graph.name(tensor));
    for (const OpId before : graph.after(op))
      if (trace.ops[op].start < trace.ops[before].end)
        return fmt::format("'{}' started before '{}' had ended", graph.name(op), graph.name(before));
  }
  for (const Transfer& transfer : trace.transfers)
    for (const OpId consumer : graph.consumers(transfer.tensor))
      if (schedule.placement[consumer] == transfer.to && trace.ops[consumer].start < transfer.end)
        return fmt::format("'{}' started before '{}' had arrived", graph.name(consumer), graph.name(transfer.tensor));
  return "";
}

void compare_links(const Problem& problem, const Timeline& predicted, Validation& result) {
  const auto entry = [&](DeviceId from, DeviceId to) -> LinkError& {
    for (LinkError& link : result.links)
      if (link.from == from && link.to == to) return link;
    return result.links.emplace_back(
        LinkError{.from = from, .to = to, .transfers = 0, .predicted = {}, .measured = {}});
  };
  for (const Transfer& transfer : predicted.transfers) {
    LinkError& link = entry(transfer.from, transfer.to);
    ++link.transfers;
    link.predicted += problem.transfer_time(transfer.tensor, transfer.from, transfer.to);
  }
  for (const Transfer& transfer : result.timeline.transfers)
    entry(transfer.from, transfer.to).measured += transfer.end - transfer.start;
}

void judge(const ValidateOptions& options, Validation& result) {
  result.noise_floor = options.noise_floor;
  if (!result.order_kept) {
    result.verdict = Verdict::fail;
    result.why = "the order is wrong: " + result.order_fault;
  } else if (!result.outputs_agree) {
    result.verdict = Verdict::fail;
    result.why = "the outputs differ from those of a run on one device";
  } else if (result.clean_steps < options.least_clean_steps) {
    result.verdict = Verdict::inconclusive;
    result.why = fmt::format("only {} undisturbed steps, {} are needed", result.clean_steps, options.least_clean_steps);
  } else if (std::abs(result.structural_error) > options.structural_tolerance) {
    result.verdict = Verdict::fail;
    result.why = fmt::format("a structural error of {:.1f} %, {:.0f} % are allowed", 100 * result.structural_error,
                             100 * options.structural_tolerance);
  } else if (options.noise_floor > 0.15) {
    result.verdict = Verdict::inconclusive;
    result.why =
        fmt::format("the same work takes times that are {:.0f} % apart on this machine: at most 15 % tell anything",
                    100 * options.noise_floor);
  } else if (std::abs(result.total_error) > options.total_tolerance) {
    result.verdict = Verdict::fail;
    result.why = fmt::format("the prediction is {:.1f} % off, {:.0f} % are allowed", 100 * result.total_error,
                             100 * options.total_tolerance);
  } else {
    result.verdict = Verdict::pass;
    result.why = "within its tolerances";
  }
}

void compare(const Problem& problem, const Candidate& candidate, const ValidateOptions& options, Validation& result) {
  Simulation simulation{problem};
  const Timeline predicted = simulation.timeline(*candidate.schedule);
  result.predicted = predicted.makespan;
  result.predicted_peak = IdMap<DeviceId, Bytes>(problem.device_count());
  for (const DeviceId device : problem.devices()) result.predicted_peak[device] = predicted.devices[device].peak;
  result.clean_steps = candidate.clean.size();
  result.dropped_steps = candidate.all.size() - candidate.clean.size();
  std::vector<Nanoseconds> makespans;
  for (const Clean& step : candidate.clean) makespans.push_back(step.makespan);
  if (makespans.empty()) makespans = candidate.all;
  result.p10 = quantile(makespans, 0.1), result.p50 = quantile(makespans, 0.5), result.p90 = quantile(makespans, 0.9);
  result.total_error = relative(result.predicted, result.p50);
  // The step nearest to the median stands for all.
  const auto distance = [&](const auto& step) { return std::abs((step.first - result.p50).count); };
  result.timeline = std::min_element(candidate.steps.begin(), candidate.steps.end(), [&](const auto& a, const auto& b) {
                      return distance(a) < distance(b);
                    })->second;
  IdMap<OpId, double> sums(problem.op_count(), 0.0);
  std::vector<double> structural;
  for (const Clean& step : candidate.clean) {
    structural.push_back(relative(simulation.makespan(*candidate.schedule, step.durations), step.makespan));
    for (const OpId op : problem.ops()) sums[op] += static_cast<double>(step.durations[op].count);
  }
  if (!structural.empty()) {
    result.structural_error = quantile(structural, 0.5);
    IdMap<OpId, Nanoseconds> means(problem.op_count());
    for (const OpId op : problem.ops())
      means[op] = Nanoseconds{std::llround(sums[op] / static_cast<double>(candidate.clean.size()))};
    result.op_time_error = relative(result.predicted, simulation.makespan(*candidate.schedule, means));
    for (const OpId op : problem.ops())
      result.ops.push_back({op, problem.duration(op, candidate.schedule->placement[op]), means[op]});
    std::stable_sort(result.ops.begin(), result.ops.end(), [](const OpError& a, const OpError& b) {
      return std::abs((a.predicted - a.measured).count) > std::abs((b.predicted - b.measured).count);
    });
  }
  compare_links(problem, predicted, result);
  Nanoseconds said{0}, took{0};
  for (const LinkError& link : result.links) said += link.predicted, took += link.measured;
  result.link_error = relative(said, took);
  judge(options, result);
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::pass ? "pass" : verdict == Verdict::fail ? "fail" : "inconclusive";
}

std::vector<Validation> validate(Backend& backend, const Problem& problem, const Workload& workload,
                                 const std::vector<std::pair<std::string, Schedule>>& schedules,
                                 const ValidateOptions& options) {
  std::vector<Validation> results(schedules.size());
  double loss = 0;
  std::uint64_t checksum = 0;
  if (workload.recipe) {
    DeviceId only{0};
    for (const DeviceId device : problem.devices())
      if (std::all_of(problem.ops().begin(), problem.ops().end(),
                      [&](OpId op) { return problem.can_run(op, device); })) {
        only = device;
        break;
      }
    const Schedule serial = serial_schedule(problem, only);
    const auto reference = backend.prepare(problem, workload, serial);
    loss = reference->step().loss;
    checksum = reference->parameter_checksum();
  }
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    results[i].name = schedules[i].first;
    candidates.push_back({.schedule = &schedules[i].second,
                          .run = backend.prepare(problem, workload, schedules[i].second),
                          .clean = {},
                          .all = {},
                          .steps = {}});
    const StepTrace& first = candidates.back().run->step();
    if (workload.recipe)
      results[i].outputs_agree = (first.loss == loss || (std::isnan(first.loss) && std::isnan(loss))) &&
                                 candidates.back().run->parameter_checksum() == checksum;
  }
  const std::int64_t until = cpu::now_ns() + options.most_ns;
  for (int round = 0; round < options.rounds && (round == 0 || cpu::now_ns() < until); ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Candidate& candidate = candidates[i];
      for (int k = 0; k < options.warm; ++k) candidate.run->step();
      for (int k = 0; k < options.measured; ++k) {
        const StepTrace& trace = candidate.run->step();
        candidate.all.push_back(trace.makespan);
        if (results[i].order_kept) {
          results[i].order_fault = order_fault(problem, *candidate.schedule, trace);
          results[i].order_kept = results[i].order_fault.empty();
        }
        results[i].allocated = std::max(results[i].allocated, trace.allocated);
        if (results[i].measured_peak.empty()) results[i].measured_peak = IdMap<DeviceId, Bytes>(problem.device_count());
        for (const DeviceId device : problem.devices())
          results[i].measured_peak[device] = std::max(results[i].measured_peak[device], trace.peak[device]);
        candidate.steps.emplace_back(trace.makespan, timeline_of(trace, problem));
        if (!trace.contaminated.empty()) continue;
        Clean clean{.makespan = trace.makespan, .durations = IdMap<OpId, Nanoseconds>(problem.op_count())};
        for (const OpId op : problem.ops())
          clean.durations[op] =
              problem.graph().type(op) == "Input" ? Nanoseconds{0} : trace.ops[op].end - trace.ops[op].start;
        candidate.clean.push_back(std::move(clean));
      }
    }
  for (std::size_t i = 0; i < candidates.size(); ++i) compare(problem, candidates[i], options, results[i]);
  return results;
}

Ranking rank(const std::vector<Validation>& validations) {
  Ranking ranking;
  std::size_t right = 0;
  for (std::size_t i = 0; i < validations.size(); ++i)
    for (std::size_t j = i + 1; j < validations.size(); ++j) {
      const Validation &a = validations[i], &b = validations[j];
      const auto low = std::min(a.p50, b.p50), high = std::max(a.p50, b.p50);
      if (static_cast<double>(high.count) < 1.1 * static_cast<double>(low.count)) continue;
      ++ranking.pairs;
      if (a.predicted != b.predicted && (a.predicted < b.predicted) == (a.p50 < b.p50)) ++right;
    }
  if (ranking.pairs > 0) ranking.agreement = static_cast<double>(right) / static_cast<double>(ranking.pairs);
  const auto chosen =
      std::min_element(validations.begin(), validations.end(),
                       [](const Validation& a, const Validation& b) { return a.predicted < b.predicted; });
  const auto best = std::min_element(validations.begin(), validations.end(),
                                     [](const Validation& a, const Validation& b) { return a.p50 < b.p50; });
  if (best != validations.end()) ranking.regret = relative(chosen->p50, best->p50);
  return ranking;
}

}  // namespace trainyard
