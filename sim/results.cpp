#include "results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "console.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kMostDevices = 32;  // lines of the device table; --json lists all

std::string sources_text(const RunSummary& run) {
  std::vector<std::string> parts;
  for (const SourceUse& use : run.sources)
    parts.push_back(fmt::format("{} {} ({})", percent(use.time_share), name_of(use.source),
                                counted(static_cast<std::int64_t>(use.ops), "op")));
  std::string text = fmt::format("op times rest on: {}", fmt::join(parts, ", "));
  parts.clear();
  bool measured = false;
  for (const EvidenceUse& use : run.evidence) {
    if (use.transfers == 0) continue;
    parts.push_back(fmt::format("{} {} ({})", percent(use.transfer_share), name_of(use.evidence),
                                counted(static_cast<std::int64_t>(use.transfers), "transfer")));
    measured = measured || use.evidence != Evidence::estimated;
  }
  return measured ? text + fmt::format("; transfer times are {}", fmt::join(parts, ", ")) : text;
}

std::string device_table(const RunResult& run) {
  using Align = Table::Align;
  Table table{{{"device"},
               {"ops", Align::right},
               {"busy", Align::right},
               {"of step", Align::right},
               {"exposed comm", Align::right},
               {"peak memory", Align::right},
               {"at", Align::right}}};
  IdMap<DeviceId, std::int64_t> ops(run.problem.device_count(), 0);
  for (const OpId op : run.problem.ops()) ++ops[run.schedule.placement[op]];
  for (const DeviceId device : run.problem.devices()) {
    if (device.index() == kMostDevices) break;
    const DeviceUse& use = run.timeline.devices[device];
    const auto& capacity = run.problem.cluster().device(device).memory;
    const double share = run.timeline.makespan.count > 0 ? seconds(use.busy) / seconds(run.timeline.makespan) : 0;
    table.add_row({run.problem.cluster().device(device).name, with_separators(ops[device]), format_time(use.busy),
                   percent(share), format_time(use.exposed_communication),
                   format_bytes(use.peak) + (capacity ? " of " + format_bytes(*capacity) : "") +
                       (use.out_of_memory ? " (over)" : ""),
                   format_time(use.peak_at)});
  }
  std::string text = table.text();
  if (run.problem.device_count() > kMostDevices)
    text += fmt::format(" ... and {} more devices (--json lists all)\n", run.problem.device_count() - kMostDevices);
  return text;
}

/// The parts of the device's peak, in words.
std::string peak_parts(const RunResult& run, DeviceId device, const OutOfMemory& oom) {
  Bytes parameters{}, state{};
  for (const OpId op : run.problem.ops()) {
    if (run.schedule.placement[op] != device) continue;
    parameters += run.problem.graph().parameter_bytes(op);
    state += run.problem.graph().state_bytes(op);
  }
  return fmt::format("parameters {}, optimizer state {}, activations {}, transfer buffers {}, workspace {}",
                     format_bytes(parameters), format_bytes(state), format_bytes(oom.produced),
                     format_bytes(oom.arrived), format_bytes(oom.workspace));
}

std::string holding_text(const Graph& graph, const Holding& holding) {
  const bool is_tensor = holding.kind == Holding::Kind::produced || holding.kind == Holding::Kind::arrived;
  return fmt::format("{} {}", is_tensor ? graph.name(holding.tensor) : graph.name(holding.op),
                     format_bytes(holding.bytes));
}

Nanoseconds rounded(double ns) { return Nanoseconds{static_cast<std::int64_t>(std::floor(ns + 0.5))}; }

/// What the steady step time is read off.
std::string steady_reason(const SteadyState& steady) {
  switch (steady.from) {
    case SteadyState::From::one_step:
      return "one step alone";
    case SteadyState::From::periodic:
      return steady.period == 1 ? "the last steps take the same time each"
                                : fmt::format("the last steps repeat every {}", steady.period);
    case SteadyState::From::average:
      return "mean of the second half";
    case SteadyState::From::load:
      break;
  }
  return "load of the busiest device";
}

void add_noise_rows(Table& table, const NoiseResult& noise) {
  table.add_row({"with noise",
                 fmt::format("mean {}, deviation {}", format_time(rounded(noise.mean_ns)), percent(noise.deviation))});
  table.add_row(
      {"", fmt::format("p50 {}, p95 {}, p99 {} ({})", format_time(noise.p50), format_time(noise.p95),
                       format_time(noise.p99), counted(static_cast<std::int64_t>(noise.samples.size()), "sample"))});
}

void add_step_rows(Table& table, const StepTimes& steps) {
  const auto count = static_cast<std::int64_t>(steps.ends.size());
  table.add_row(
      {"steady step time", fmt::format("{} ({})", format_time(steps.steady.step_time), steady_reason(steps.steady))});
  std::string tied = fmt::format("{}, tied by {}", format_time(steps.timeline.makespan),
                                 counted(static_cast<std::int64_t>(steps.ties), "update dependency"));
  if (steps.ties != 1) tied = tied.substr(0, tied.rfind(' ')) + " dependencies";
  table.add_row({counted(count, "step"), tied});
  Bytes peak{};
  for (const DeviceUse& use : steps.timeline.devices) peak = std::max(peak, use.peak);
  table.add_row({"", fmt::format("largest peak {}{}", format_bytes(peak), steps.timeline.fits() ? "" : " (over)")});
}

Schedule placed_by(const Placer& placer, const Problem& problem, const PlaceOptions& options) {
  try {
    return placer.place(problem, options);
  } catch (const InputError& error) {
    const std::string& code = error.findings().front().code;
    if (code == "unknown-parameter" || code == "parameter-value") throw UsageError(error, "--parameter");
    throw;
  }
}

}  // namespace

LowerBound bound_for(const Problem& problem, const Problem& scheduled, const LowerBound& bound) {
  return problem.splits() == scheduled.splits() ? bound : best_lower_bound(scheduled);
}

RunResult run_placer(const std::string& model, const Problem& problem, const LowerBound& bound, const Placer& placer,
                     const PlaceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Schedule schedule = placed_by(placer, problem, options);
  const std::chrono::duration<double> search = std::chrono::steady_clock::now() - start;
  if (schedule.placer.empty()) schedule.placer = placer.name;
  schedule.seed = options.seed;
  const Problem whole = scheduled_problem(problem, schedule);
  Timeline timeline = simulate(whole, schedule);
  LowerBound best = bound_for(problem, whole, bound);
  if (schedule.search && schedule.search->lower_bound && *schedule.search->lower_bound > best.value)
    best = {"search", *schedule.search->lower_bound};
  RunSummary summary = summarize(whole, schedule, timeline, best);
  return {
      model,         problem.cluster().name(), placer.name, whole, std::move(schedule), std::move(timeline), summary,
      search.count()};
}

GraphFacts facts_of(const LoadedModel& model) {
  const Graph& graph = model.graph;
  GraphFacts facts{.name = graph.name(), .ops = graph.op_count(), .tensors = graph.tensor_count()};
  for (const OpId op : graph.ops()) {
    const double flops = graph.flops(op).value;
    (graph.phase(op) == Phase::forward    ? facts.forward_total_flops
     : graph.phase(op) == Phase::backward ? facts.backward_total_flops
                                          : facts.update_flops) += flops;
    facts.parameter_bytes += graph.parameter_bytes(op).count;
    facts.state_bytes += graph.state_bytes(op).count;
  }
  facts.forward_flops = facts.forward_total_flops;
  facts.backward_flops = facts.backward_total_flops;
  if (model.summary) {
    facts.forward_flops = model.summary->forward_matmul_flops.value;
    facts.backward_flops = model.summary->backward_matmul_flops.value;
    facts.parameters = model.summary->parameters;
    facts.saved_bytes = model.summary->saved_bytes.count;
  }
  return facts;
}

std::string problem_title(const std::string& model, const Problem& problem) {
  return fmt::format("{} on {}: {}, {}, {}", model, problem.cluster().name(),
                     counted(static_cast<std::int64_t>(problem.op_count()), "op"),
                     counted(static_cast<std::int64_t>(problem.graph().tensor_count()), "tensor"),
                     counted(static_cast<std::int64_t>(problem.device_count()), "device"));
}

std::string run_text(const RunResult& run) {
  const std::string who = run.placer.empty() ? "The schedule" : run.placer;
  std::string text = problem_title(run.model, run.problem) + "\n\n";
  Table table{{{""}, {""}}};
  if (run.load)
    table.add_row({"largest load", fmt::format("{} (at least {}: {})", format_time(run.load->value),
                                               format_time(run.load->bound), run.load->bound_name)});
  if (run.completion) {
    const CompletionResult& completion = *run.completion;
    table.add_row({"sum of completions",
                   fmt::format("{} (at least {})", format_time(completion.total), format_time(completion.bound))});
    if (completion.models.size() > 1)
      for (const auto& [name, time] : completion.models)
        table.add_row({"", fmt::format("{} {}", format_time(time), name)});
  }
  table.add_row({"step time", format_time(run.summary.makespan)});
  if (run.noise) add_noise_rows(table, *run.noise);
  if (run.steps) add_step_rows(table, *run.steps);
  if (run.steps_noise) add_noise_rows(table, *run.steps_noise);
  table.add_row({"lower bound", fmt::format("{} ({})", format_time(run.summary.bound.value), run.summary.bound.name)});
  table.add_row({"busy", percent(run.summary.busy) + " of device time"});
  table.add_row({"exposed communication", format_time(run.summary.exposed_communication)});
  table.add_row({"transfers", fmt::format("{}, {}", with_separators(static_cast<std::int64_t>(run.summary.transfers)),
                                          format_bytes(run.summary.transferred))});
  table.add_row({"peak memory", fmt::format("{}, on {}{}", peak_text(run.problem, run.summary),
                                            run.problem.cluster().device(run.summary.tightest).name,
                                            run.summary.fits ? "" : " (does not fit)")});
  if (run.search_seconds)
    table.add_row(
        {"search", fmt::format("{} ({})", format_time(nanoseconds_from_seconds(*run.search_seconds)), run.placer)});
  text += table.text() + "\n" + device_table(run) + "\n";
  text += wrapped(sentence(run.problem, run.timeline, run.summary, who), kTextWidth);
  return text + wrapped(sources_text(run.summary), kTextWidth);
}

std::vector<std::string> unused_warnings(const Problem& problem, const RunSummary& run) {
  if (run.unused.empty()) return {};
  std::string names;
  for (const DeviceId device : run.unused) {
    if (device != run.unused.front()) names += ", ";
    names += problem.cluster().device(device).name;
    if (names.size() > 60 && device != run.unused.back()) {
      names += ", ...";
      break;
    }
  }
  return {fmt::format("{} of {} devices run nothing: {}", run.unused.size(), problem.device_count(), names)};
}

InputError out_of_memory_error(const RunResult& run) {
  std::vector<Finding> findings;
  const Graph& graph = run.problem.graph();
  for (const DeviceId id : run.problem.devices()) {
    const DeviceUse& use = run.timeline.devices[id];
    if (!use.out_of_memory || findings.size() == kMostFindings) continue;
    const OutOfMemory& oom = *use.out_of_memory;
    const Device& device = run.problem.cluster().device(id);
    std::string message = fmt::format("the placement does not fit: {} needs {} at {}, it has {} ({} over)", device.name,
                                      format_bytes(use.peak), format_time(use.peak_at), format_bytes(*device.memory),
                                      format_bytes(oom.over));
    message += "\n      " + peak_parts(run, id, oom);
    if (!oom.op.is_none())
      message += fmt::format("\n      crossed at {} by {}", format_time(oom.at), graph.name(oom.op));
    else if (oom.transfer)
      message += fmt::format("\n      crossed at {} by the transfer of {}", format_time(oom.at),
                             graph.name(run.timeline.transfers[*oom.transfer].tensor));
    if (!oom.largest.empty()) {
      std::vector<std::string> largest;
      for (const Holding& holding : oom.largest) largest.push_back(holding_text(graph, holding));
      message += fmt::format("\n      largest then held: {}", fmt::join(largest, ", "));
    }
    findings.push_back({.code = "out-of-memory", .message = message});
  }
  if (!findings.empty())
    findings.back().help =
        "`trainyard compare` with the same model and cluster shows which placers find a fit; or a smaller batch, or "
        "more devices";
  return InputError{std::move(findings)};
}

RunResult run_of_steps(const RunResult& run, const LowerBound& bound) {
  const StepTimes& steps = *run.steps;
  RunSummary summary = summarize(steps.problem, steps.schedule, steps.timeline, bound);
  return {run.model,      run.cluster,    run.placer,         steps.problem,
          steps.schedule, steps.timeline, std::move(summary), run.search_seconds};
}

PageRun page_run(const RunResult& run) {
  return {.placer = run.placer.empty() ? "schedule" : run.placer,
          .problem = run.problem,
          .schedule = run.schedule,
          .timeline = run.timeline,
          .lower_bound = run.summary.bound.value,
          .bound_name = run.summary.bound.name,
          .search_seconds = run.search_seconds,
          .optimal = run.summary.optimal};
}

}  // namespace trainyard::program
