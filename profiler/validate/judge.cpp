#include "profiler/validate/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {
namespace {

constexpr double kSlowOp = 3, kSlowShare = 0.01, kScatteredShare = 0.5;
constexpr std::size_t kLeastSamples = 3;  // undisturbed ones per op

double relative(Nanoseconds predicted, Nanoseconds measured) {
  return measured.count == 0
             ? 0
             : static_cast<double>(predicted.count - measured.count) / static_cast<double>(measured.count);
}

/// Time that other work took from an op. A step that lost nothing lists no times.
Nanoseconds lost(const MeasuredStep& step, OpId op) { return step.lost.empty() ? Nanoseconds{0} : step.lost[op]; }

bool undisturbed(const MeasuredStep& step, OpId op) { return lost(step, op).count * 100 <= step.durations[op].count; }

/// Median of each op's undisturbed times; 0 if it has none.
IdMap<OpId, Nanoseconds> medians(const MeasuredRuns& runs, std::size_t ops) {
  IdMap<OpId, Nanoseconds> result(ops, Nanoseconds{0});
  std::vector<Nanoseconds> times;
  for (std::size_t i = 0; i < ops; ++i) {
    const OpId op{i};
    times.clear();
    for (const MeasuredStep& step : runs.steps)
      if (undisturbed(step, op)) times.push_back(step.durations[op]);
    if (!times.empty()) result[op] = upper_quantile_of(times);
  }
  return result;
}

/// Mean time of each op over clean steps.
IdMap<OpId, Nanoseconds> clean_means(const Problem& problem, const MeasuredRuns& runs) {
  IdMap<OpId, Nanoseconds> means(problem.op_count(), Nanoseconds{0});
  std::vector<double> times;
  for (const OpId op : problem.ops()) {
    times.clear();
    for (const MeasuredStep& step : runs.steps)
      if (step.dropped.empty()) times.push_back(static_cast<double>(step.durations[op].count));
    if (!times.empty()) means[op] = Nanoseconds{std::llround(mean_of(times))};
  }
  return means;
}

/// Mean of each op's undisturbed times; if these are too few, of all times net of the time that other work took. `net`
/// counts the latter ops. Times far beyond the median are left out. Empty if there are too few steps.
IdMap<OpId, Nanoseconds> op_means(const Problem& problem, const MeasuredRuns& runs, std::size_t& net) {
  IdMap<OpId, Nanoseconds> means(problem.op_count(), Nanoseconds{0});
  if (runs.steps.size() < kLeastSamples) return {};
  std::vector<double> times;
  for (const OpId op : problem.ops()) {
    times.clear();
    for (const MeasuredStep& step : runs.steps)
      if (undisturbed(step, op)) times.push_back(static_cast<double>(step.durations[op].count));
    if (times.size() < kLeastSamples) {
      ++net;
      times.clear();
      for (const MeasuredStep& step : runs.steps)
        if (lost(step, op) < step.durations[op])  // otherwise the lost time is too uncertain
          times.push_back(static_cast<double>((step.durations[op] - lost(step, op)).count));
      if (times.empty())
        for (const MeasuredStep& step : runs.steps) times.push_back(static_cast<double>(step.durations[op].count));
    }
    const double most = kSlowOp * upper_quantile_of(times);
    std::erase_if(times, [&](double time) { return time > most; });
    means[op] = Nanoseconds{std::llround(mean_of(times))};
  }
  return means;
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
  Nanoseconds said{0}, took{0};
  for (const LinkError& link : result.links) said += link.predicted, took += link.measured;
  result.link_error = relative(said, took);
}

/// The problem with the gaps of this run: medians over steps. A mean would be distorted by a host that takes the core
/// between two ops, which the guest cannot see: one such gap is as long as thousands of others.
Problem with_own_gaps(const Problem& problem, const MeasuredRuns& runs, Validation& result) {
  ClusterSpec spec = problem.cluster().spec();
  result.gap_ns = IdMap<DeviceId, double>(problem.device_count(), 0);
  for (const DeviceId device : problem.devices()) {
    if (runs.gaps.empty() || runs.gaps[device].empty()) continue;
    result.gap_ns[device] = upper_quantile_of(runs.gaps[device]);
    spec.devices[device.index()].gap = Nanoseconds{std::llround(result.gap_ns[device])};
  }
  return problem.with_machine(make_cluster(std::move(spec)), problem.costs());
}

void find_structural_error(const Problem& problem, const MeasuredRuns& runs, Validation& result) {
  const Problem own = with_own_gaps(problem, runs, result);
  Simulation simulation{own};
  std::vector<double> errors;
  double ops = 0, count = 0;
  for (const MeasuredStep& step : runs.steps) {
    if (step.scattered) continue;
    // Time lost before an op is replayed as part of it, like time lost within it.
    IdMap<OpId, Nanoseconds> durations = step.durations;
    if (!step.late.empty())
      for (const OpId op : problem.ops()) durations[op] += step.late[op];
    errors.push_back(relative(simulation.makespan(*runs.schedule, durations), step.makespan));
    for (const Nanoseconds time : step.durations)
      if (time.count > 0) ops += static_cast<double>(time.count), count += 1;
  }
  result.structural_steps = errors.size();
  if (errors.empty()) return;
  result.structural_error = upper_quantile_of(errors);
  result.structural_p10 = upper_quantile_of(errors, 0.1), result.structural_p90 = upper_quantile_of(errors, 0.9);
  result.mean_op = Nanoseconds{std::llround(ops / std::max(1.0, count))};
  result.structural_tolerance = structural_tolerance(result.mean_op);
}

void find_total_error(const Problem& plain, const MeasuredRuns& runs, const ValidateOptions& options,
                      Validation& result) {
  const Problem problem = beside_others(plain, *runs.schedule);
  Simulation simulation{problem};
  const Timeline predicted = simulation.timeline(*runs.schedule);
  result.predicted = predicted.makespan;
  for (const DeviceId device : problem.devices()) result.predicted_peak[device] = predicted.devices[device].peak;
  std::vector<Nanoseconds> clean, all;
  for (const MeasuredStep& step : runs.steps) {
    all.push_back(step.makespan);
    if (step.dropped.empty()) clean.push_back(step.makespan);
  }
  const std::vector<Nanoseconds>& makespans = clean.empty() ? all : clean;
  result.p10 = upper_quantile_of(makespans, 0.1), result.p50 = upper_quantile_of(makespans),
  result.p90 = upper_quantile_of(makespans, 0.9);
  // The step nearest the median, of those kept, stands for all.
  const auto distance = [&](const auto& step) { return std::abs((step.first - result.p50).count); };
  result.timeline = std::min_element(runs.timelines.begin(), runs.timelines.end(), [&](const auto& a, const auto& b) {
                      return distance(a) < distance(b);
                    })->second;
  compare_links(problem, predicted, result);
  const bool enough = clean.size() >= options.least_clean_steps;
  const IdMap<OpId, Nanoseconds> means = enough ? clean_means(problem, runs) : op_means(problem, runs, result.net_ops);
  result.measured = result.p50;
  if (runs.plain.size() >= kLeastSamples) result.plain = upper_quantile_of(runs.plain);
  result.total_error = relative(result.predicted, result.makespan());
  if (means.empty()) return;
  Timeline replay = simulation.timeline(*runs.schedule, means);
  const Nanoseconds of_means = replay.makespan;
  result.basis = enough ? Basis::steps : Basis::ops;
  result.op_time_error = relative(result.predicted, of_means);
  if (!enough) {
    result.measured = of_means;
    if (result.plain.count == 0) result.total_error = result.op_time_error;
    result.timeline = std::move(replay);
  }
  for (const OpId op : problem.ops())
    result.ops.push_back({op, problem.duration(op, runs.schedule->placement[op]), means[op]});
  std::stable_sort(result.ops.begin(), result.ops.end(), [](const OpError& a, const OpError& b) {
    return std::abs((a.predicted - a.measured).count) > std::abs((b.predicted - b.measured).count);
  });
}

std::string dropped_text(const Validation& result) {
  std::string text;
  for (const auto& [reason, count] : result.dropped)
    text += fmt::format(", {} dropped for {}", counted(count, "step"), reason);
  return text.empty() ? "" : text.substr(2);
}

void conclude(const ValidateOptions& options, Validation& result) {
  const auto say = [&](Verdict verdict, std::string why) { result.verdict = verdict, result.why = std::move(why); };
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  if (!result.order_kept) return say(Verdict::fail, "the order is wrong: " + result.order_fault);
  if (!result.outputs_agree) return say(Verdict::fail, "the outputs differ from those of a run on one device");
  if (result.structural_steps < options.least_clean_steps)
    return say(Verdict::inconclusive, fmt::format("only {} of {} steps can be replayed, at least {} are needed{}",
                                                  result.structural_steps, result.steps, options.least_clean_steps,
                                                  result.structural_steps == result.steps ? ": raise --time" : ""));
  if (result.structural_tolerance > 0 && std::abs(result.structural_error) > result.structural_tolerance)
    return say(Verdict::fail,
               fmt::format("the structural error is {} (limit {} for ops of {})", percent(result.structural_error),
                           percent(result.structural_tolerance), format_time(result.mean_op)));
  if (result.basis == Basis::none)
    return say(Verdict::inconclusive, "too few op times are undisturbed: " + dropped_text(result));
  const std::string structure =
      result.structural_tolerance > 0
          ? fmt::format("structural error {} (limit {})", percent(std::abs(result.structural_error)),
                        percent(result.structural_tolerance))
          : fmt::format("ops of {} are too short to judge the structure", format_time(result.mean_op));
  if (std::abs(result.total_error) <= options.total_tolerance)
    return say(Verdict::pass, fmt::format("{}, total error {} (limit {})", structure,
                                          percent(std::abs(result.total_error)), percent(options.total_tolerance)));
  const std::string off = fmt::format("the prediction is off by {} (limit {})", percent(result.total_error),
                                      percent(options.total_tolerance));
  if (result.basis == Basis::ops)
    return say(Verdict::inconclusive,
               fmt::format("{}; but only {} steps were undisturbed, at least {} are needed ({}); {}", off,
                           result.clean_steps, options.least_clean_steps, dropped_text(result), structure));
  if (options.noise_floor > 0.15)
    return say(Verdict::inconclusive, fmt::format("{}; but times of the same work vary by {:.0f} % on this machine; {}",
                                                  off, 100 * options.noise_floor, structure));
  say(Verdict::fail, fmt::format("{}; {}", off, structure));
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::pass ? "pass" : verdict == Verdict::fail ? "fail" : "inconclusive";
}

std::string_view name_of(Basis basis) { return basis == Basis::steps ? "steps" : basis == Basis::ops ? "ops" : "none"; }

Problem beside_others(const Problem& problem, const Schedule& schedule) {
  std::set<DeviceId> used(schedule.placement.begin(), schedule.placement.end());
  const CostModel* alone = problem.costs().target<CostModel>();
  if (used.size() < 2 || !alone || alone->co_running != 1 || alone->co_run.empty()) return problem;
  // Neighbours that the simulation models must not be counted twice.
  const auto is_part = [&](DeviceId id) { return !problem.cluster().device(id).part_of.empty(); };
  if (problem.copies_slow_ops() && std::ranges::any_of(used, is_part)) return problem;
  CostModel together = *alone;
  together.co_running = static_cast<std::int64_t>(used.size());
  return problem.with_machine(problem.cluster(), Costs{std::move(together)}.at(problem.costs().speeds()));
}

double structural_tolerance(Nanoseconds mean_op) {
  return mean_op.count >= 100'000 ? 0.01 : mean_op.count >= 10'000 ? 0.03 : 0;
}

MeasuredStep measured_step(const StepTrace& trace) {
  MeasuredStep step{.makespan = trace.makespan,
                    .delayed = trace.delayed,
                    .durations = IdMap<OpId, Nanoseconds>(trace.ops.size()),
                    .lost = trace.lost,
                    .late = trace.late,
                    .dropped = trace.contaminated};
  for (std::size_t i = 0; i < trace.ops.size(); ++i)
    step.durations[OpId{i}] = trace.ops[OpId{i}].end - trace.ops[OpId{i}].start;
  step.scattered =
      static_cast<double>(trace.delayed.count) > kScatteredShare * static_cast<double>(trace.makespan.count);
  return step;
}

void drop_slow_steps(MeasuredRuns& runs) {
  if (runs.steps.empty()) return;
  const auto usual = medians(runs, runs.steps.front().durations.size());
  for (MeasuredStep& step : runs.steps) {
    if (!step.dropped.empty()) continue;
    double beyond = 0;
    for (std::size_t i = 0; i < usual.size(); ++i) {
      const double took = static_cast<double>(step.durations[OpId{i}].count),
                   mostly = static_cast<double>(usual[OpId{i}].count);
      if (mostly > 0 && took > kSlowOp * mostly) beyond += took - mostly;
    }
    if (beyond > kSlowShare * static_cast<double>(step.makespan.count)) step.dropped = "slow-op";
  }
}

void judge(const Problem& problem, const MeasuredRuns& runs, const ValidateOptions& options, Validation& result) {
  result.noise_floor = options.noise_floor;
  result.steps = runs.steps.size();
  result.predicted_peak = IdMap<DeviceId, Bytes>(problem.device_count());
  for (const MeasuredStep& step : runs.steps)
    if (step.dropped.empty())
      ++result.clean_steps;
    else
      ++result.dropped[step.dropped];
  find_structural_error(problem, runs, result);
  find_total_error(problem, runs, options, result);
  conclude(options, result);
}

}  // namespace trainyard
