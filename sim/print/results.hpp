#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/steps.hpp"
#include "trainyard/study/compare.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard::program {

/// A run with its name and the results of further options.
struct RunResult : Run {
  std::string model;                            // as typed
  std::size_t ops = 0;                          // before the schedule's rewrites
  std::optional<std::int64_t> batch = {};       // samples of a step, if the model says
  std::optional<StepTimes> steps = {};          // --steps
  std::optional<NoiseResult> steps_noise = {};  // --steps with --noise: noise of the time per step
};

/// Facts of an imported graph.
struct GraphFacts {
  std::string name;
  std::size_t ops = 0, tensors = 0;
  std::optional<std::int64_t> parameters, saved_bytes;  // unknown for a graph file
  /// FLOPs of convolutions and matrix products alone, as published counts are; for a graph file, FLOPs of all ops.
  double forward_flops = 0, backward_flops = 0;
  double forward_total_flops = 0, backward_total_flops = 0, update_flops = 0;  // of all ops
  std::int64_t parameter_bytes = 0, state_bytes = 0;
};
GraphFacts facts_of(const LoadedModel& model);

// --- JSON for programs: one object; key names carry the units ---
std::string import_json(const GraphFacts& facts, const std::vector<std::string>& warnings);
/// `verb` is "simulate" or "place".
std::string run_json(const std::string& verb, const RunResult& run, const std::vector<std::string>& warnings);
std::string compare_json(std::span<const Comparison> comparisons, const std::vector<std::string>& warnings);

// --- text for people ---
/// Title, table of the run, lower bound, one line per device, sources of the times.
std::string run_text(const RunResult& run, const TextFormat& format);
/// The schedule's notes, and a warning on devices that the schedule leaves idle.
std::vector<std::string> unused_warnings(const Run& run);
/// Warning if the rewrites cut the batch into parts that are not whole samples.
std::vector<std::string> share_warnings(const Schedule& schedule, const std::optional<std::int64_t>& batch);
/// Warnings for tensor ranks, of the whole graph or a stage, among which the heads of an attention cannot be divided.
/// `graph` is the graph before the schedule's rewrites.
std::vector<std::string> head_warnings(const Graph& graph, const Schedule& schedule);
/// One finding per device whose peak exceeds its memory.
InputError out_of_memory_error(const Run& run);

/// All steps of a run (--steps) as one run, to be drawn; `bound` is the lower bound of that run.
RunResult run_of_steps(const RunResult& run, const LowerBound& bound);

}  // namespace trainyard::program
