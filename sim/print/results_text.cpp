#include <fmt/format.h>

#include <algorithm>
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
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard::program {
namespace {

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

TextRows step_rows(const StepTimes& steps) {
  std::string tied =
      fmt::format("{}, tied by {}", format_time(steps.timeline.makespan), counted(steps.ties, "update dependency"));
  if (steps.ties != 1) tied = tied.substr(0, tied.rfind(' ')) + " dependencies";
  Bytes peak{};
  for (const DeviceUse& use : steps.timeline.devices) peak = std::max(peak, use.peak);
  return {
      {"steady step time", fmt::format("{} ({})", format_time(steps.steady.step_time), steady_reason(steps.steady))},
      {counted(steps.ends.size(), "step"), tied},
      {"", fmt::format("largest peak {}{}", format_bytes(peak), steps.timeline.fits() ? "" : " (over)")}};
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
  TextRows rows;
  if (run.steps) rows = step_rows(*run.steps);
  if (run.steps_noise)
    for (std::vector<std::string>& row : noise_rows(*run.steps_noise)) rows.push_back(std::move(row));
  return run_text(run, format, problem_title(run.model, run.problem, run.ops), rows);
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
