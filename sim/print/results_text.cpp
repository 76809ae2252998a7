#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "print/results.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/run_text.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kMostDevices = 32;  // lines of the device table; --json lists all

std::string device_table(const Run& run, const TextFormat& format) {
  using Align = TextTable::Align;
  TextTable table{{{"device"},
                   {"ops", Align::right, 1},
                   {"busy", Align::right, 3},
                   {"of step", Align::right},
                   {"exposed comm", Align::right, 2},
                   {"peak memory", Align::right},
                   {"at", Align::right, 4}}};
  table.fit(format);
  IdMap<DeviceId, std::int64_t> ops(run.problem.device_count(), 0);
  for (const OpId op : run.problem.ops()) ++ops[run.schedule.placement[op]];
  std::size_t shown = 0, left = 0;
  for (const DeviceId device : run.problem.devices()) {
    if (run.summary.fold.devices > 1 && run.summary.images[device] == 0) continue;  // represented by another device
    if (shown == kMostDevices) {
      ++left;
      continue;
    }
    ++shown;
    const DeviceUse& use = run.timeline.devices[device];
    const auto& capacity = run.problem.cluster().device(device).memory;
    const double share = run.timeline.makespan.count > 0 ? seconds(use.busy) / seconds(run.timeline.makespan) : 0;
    table.add_row({device_label(run, device), with_separators(ops[device]), format_time(use.busy), percent(share),
                   format_time(use.exposed_communication),
                   format_bytes(use.peak) + (capacity ? " of " + format_bytes(*capacity) : "") +
                       (use.out_of_memory ? " (over)" : ""),
                   format_time(use.peak_at)});
  }
  std::string text = table.text();
  if (left > 0) text += fmt::format(" ... and {} more devices (--json lists all)\n", left);
  return text;
}

/// Breakdown of the device's peak memory.
std::string peak_parts(const Run& run, DeviceId device, const OutOfMemory& oom) {
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

/// How the steady step time was determined.
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

void add_noise_rows(TextTable& table, const NoiseResult& noise) {
  table.add_row({"with noise",
                 fmt::format("mean {}, deviation {}", format_time(rounded(noise.mean_ns)), percent(noise.deviation))});
  table.add_row({"", fmt::format("p50 {}, p95 {}, p99 {} ({})", format_time(noise.p50), format_time(noise.p95),
                                 format_time(noise.p99), counted(noise.samples.size(), "sample"))});
}

void add_step_rows(TextTable& table, const StepTimes& steps) {
  const auto count = static_cast<std::int64_t>(steps.ends.size());
  table.add_row(
      {"steady step time", fmt::format("{} ({})", format_time(steps.steady.step_time), steady_reason(steps.steady))});
  std::string tied =
      fmt::format("{}, tied by {}", format_time(steps.timeline.makespan), counted(steps.ties, "update dependency"));
  if (steps.ties != 1) tied = tied.substr(0, tied.rfind(' ')) + " dependencies";
  table.add_row({counted(count, "step"), tied});
  Bytes peak{};
  for (const DeviceUse& use : steps.timeline.devices) peak = std::max(peak, use.peak);
  table.add_row({"", fmt::format("largest peak {}{}", format_bytes(peak), steps.timeline.fits() ? "" : " (over)")});
}

}  // namespace

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

std::string run_text(const RunResult& run, const TextFormat& format) {
  const std::string who = run.placer.empty() ? "The schedule" : run.placer;
  std::string text = problem_title(run.model, run.problem, run.ops) + "\n\n";
  TextTable table{{{""}, {""}}};
  table.fit(format);
  if (run.load_bound)
    table.add_row({"largest load", fmt::format("{} (at least {}: {})", format_time(run.summary.max_load),
                                               format_time(run.load_bound->value), run.load_bound->name)});
  if (run.completions) {
    const Completions& all = *run.completions;
    table.add_row(
        {"sum of completions", fmt::format("{} (at least {})", format_time(all.total), format_time(all.bound))});
    if (all.models.size() > 1)
      for (const auto& [name, time] : all.models) table.add_row({"", fmt::format("{} {}", format_time(time), name)});
  }
  table.add_row({"step time", format_time(run.summary.makespan)});
  if (run.schedule.parallel) table.add_row({"plan", describe(*run.schedule.parallel)});
  if (const auto bound = run.schedule.plan_bound) {
    const double gap = relative_gap(run.summary.makespan, bound->simulated);
    table.add_row(
        {"plan bound", fmt::format("{} ({}; no plan is estimated below {})", format_time(bound->simulated),
                                   gap < 0 ? fmt::format("this schedule is {} below it", percent(-gap))
                                           : fmt::format("no plan saves more than {} of the step", percent(gap)),
                                   format_time(bound->estimated))});
  }
  if (run.summary.fold.devices > 1)
    table.add_row(
        {"fold", fmt::format("{} of {} devices of each stage are simulated; the others do the same",
                             with_separators(run.summary.fold.made), with_separators(run.summary.fold.devices))});
  if (run.noise) add_noise_rows(table, *run.noise);
  if (run.steps) add_step_rows(table, *run.steps);
  if (run.steps_noise) add_noise_rows(table, *run.steps_noise);
  table.add_row({"lower bound", fmt::format("{} ({})", format_time(run.summary.bound.value),
                                            bound_name(run.summary.bound, run.schedule))});
  table.add_row({"busy", percent(run.summary.busy) + " of device time"});
  table.add_row({"exposed communication", format_time(run.summary.exposed_communication)});
  table.add_row({"transfers",
                 fmt::format("{}, {}", with_separators(run.summary.transfers), format_bytes(run.summary.transferred))});
  table.add_row({"peak memory", fmt::format("{}, on {}{}", peak_text(run.problem, run.summary),
                                            run.problem.cluster().device(run.summary.tightest).name,
                                            run.summary.fits ? "" : " (does not fit)")});
  if (run.search_seconds)
    table.add_row(
        {"search", fmt::format("{} ({})", format_time(nanoseconds_from_seconds(*run.search_seconds)), run.placer)});
  text += table.text() + "\n" + device_table(run, format) + "\n";
  text += wrapped(sentence(run, who), format.paragraph());
  return text + wrapped(sources_text(run.summary), format.paragraph());
}

std::vector<std::string> unused_warnings(const Run& run) {
  std::vector<std::string> warnings = run.schedule.notes;
  const std::vector<DeviceId>& unused = run.summary.unused;
  if (unused.empty()) return warnings;
  std::string names;
  for (const DeviceId device : unused) {
    if (device != unused.front()) names += ", ";
    names += run.problem.cluster().device(device).name;
    if (names.size() > 60 && device != unused.back()) {
      names += ", ...";
      break;
    }
  }
  warnings.push_back(fmt::format("{} of {} devices run nothing: {}", unused.size(), run.problem.device_count(), names));
  return warnings;
}

std::vector<std::string> share_warnings(const Schedule& schedule, const std::optional<std::int64_t>& batch) {
  std::int64_t parts = 1;
  for (const Rewrite& rewrite : schedule.rewrites) {
    if (const auto* replicate = std::get_if<Replicate>(&rewrite))
      parts *= static_cast<std::int64_t>(replicate->replicas / replicate->context);
    if (const auto* meshes = std::get_if<StageMeshes>(&rewrite)) {
      std::int64_t stages = 1;  // least common multiple of their replicas
      for (const StageMesh& mesh : meshes->stages) stages = std::lcm(stages, static_cast<std::int64_t>(mesh.replicas));
      parts *= stages;
    }
    if (const auto* microbatch = std::get_if<Microbatch>(&rewrite))
      parts *= static_cast<std::int64_t>(microbatch->parts);
  }
  if (!batch || *batch % parts == 0) return {};
  return {fmt::format(
      "a batch of {} in {} parts gives {:.3g} samples each, which no framework can run; --batch {} gives {}", *batch,
      parts, static_cast<double>(*batch) / static_cast<double>(parts), (*batch + parts - 1) / parts * parts,
      (*batch + parts - 1) / parts)};
}

std::vector<std::string> head_warnings(const Graph& graph, const Schedule& schedule) {
  std::vector<std::string> warnings;
  const auto warn = [&](std::size_t ranks, const std::function<bool(OpId)>& among) {
    const auto whole = [&](std::size_t number) { return heads_shared(graph, {.ranks = number}, among).whole; };
    const OpId first = whole(ranks);
    if (first.is_none()) return;
    std::size_t fewer = ranks - 1;
    while (!whole(fewer).is_none()) --fewer;
    warnings.push_back(
        fmt::format("{} tensor ranks do not share the heads of '{}', so each rank computes all of them{}", ranks,
                    graph.name(first), fewer > 1 ? fmt::format("; tensor {} shares them", fewer) : ""));
  };
  for (const Rewrite& rewrite : schedule.rewrites) {
    if (const auto* parallel = std::get_if<TensorParallel>(&rewrite)) warn(parallel->ranks, {});
    const auto* meshes = std::get_if<StageMeshes>(&rewrite);
    if (!meshes) continue;
    std::map<std::size_t, std::set<std::string_view>> ops;  // op names by rank count, without microbatch marks
    for (const StageMesh& mesh : meshes->stages)
      for (const std::string_view name : mesh.ops) ops[mesh.ranks].insert(name.substr(0, name.rfind(kMicrobatchMark)));
    for (const auto& [ranks, names] : ops)
      warn(ranks, [&names = names, &graph](OpId op) { return names.contains(graph.name(op)); });
  }
  return warnings;
}

InputError out_of_memory_error(const Run& run) {
  std::vector<Finding> findings;
  const Graph& graph = run.problem.graph();
  for (const DeviceId id : run.problem.devices()) {
    const DeviceUse& use = run.timeline.devices[id];
    if (!use.out_of_memory || findings.size() == kMostFindings) continue;
    const OutOfMemory& oom = *use.out_of_memory;
    const Device& device = run.problem.cluster().device(id);
    std::string message = fmt::format("the placement does not fit: {} needs {} at {}, but has {} ({} over)",
                                      device.name, format_bytes(use.peak), format_time(use.peak_at),
                                      format_bytes(*device.memory), format_bytes(oom.over));
    message += "\n      " + peak_parts(run, id, oom);
    if (!oom.op.is_none())
      message += fmt::format("\n      limit crossed at {} by {}", format_time(oom.at), graph.name(oom.op));
    else if (oom.transfer)
      message += fmt::format("\n      limit crossed at {} by the transfer of {}", format_time(oom.at),
                             graph.name(run.timeline.transfers[*oom.transfer].tensor));
    if (!oom.largest.empty()) {
      std::vector<std::string> largest;
      for (const Holding& holding : oom.largest) largest.push_back(holding_text(graph, holding));
      message += fmt::format("\n      largest held at that time: {}", fmt::join(largest, ", "));
    }
    findings.push_back({.code = "out-of-memory", .message = message});
  }
  if (!findings.empty())
    findings.back().help =
        "give a smaller batch or more devices; `trainyard compare` with the same model and cluster shows which placers "
        "fit";
  return InputError{std::move(findings)};
}

RunResult run_of_steps(const RunResult& run, const LowerBound& bound) {
  const StepTimes& steps = *run.steps;
  RunResult all{run_of(steps.problem, steps.schedule, steps.timeline, bound), run.model, run.ops, run.batch};
  all.placer = fmt::format("{}, {}", run.placer.empty() ? "schedule" : run.placer, counted(steps.ends.size(), "step"));
  all.search_seconds = run.search_seconds;
  return all;
}

}  // namespace trainyard::program
