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

/// A run with its name and what else was asked of it.
struct RunResult : Run {
  std::string model;                            // as typed
  std::size_t ops = 0;                          // before the schedule's rewrites
  std::optional<std::int64_t> batch = {};       // samples of a step, where the model says
  std::optional<StepTimes> steps = {};          // --steps
  std::optional<NoiseResult> steps_noise = {};  // --steps and --noise: of the time per step
};

/// Facts of an imported graph.
struct GraphFacts {
  std::string name;
  std::size_t ops = 0, tensors = 0;
  std::optional<std::int64_t> parameters, saved_bytes;  // not known of a graph file
  /// FLOPs of convolutions and matrix products alone, which is what published counts are; of a graph file, of all ops.
  double forward_flops = 0, backward_flops = 0;
  double forward_total_flops = 0, backward_total_flops = 0, update_flops = 0;  // of all ops
  std::int64_t parameter_bytes = 0, state_bytes = 0;
};
GraphFacts facts_of(const LoadedModel& model);

// --- for programs: one JSON object; units are in the names of the keys ---
std::string import_json(const GraphFacts& facts, const std::vector<std::string>& warnings);
/// `verb` is "simulate" or "place".
std::string run_json(const std::string& verb, const RunResult& run, const std::vector<std::string>& warnings);
std::string compare_json(std::span<const Comparison> comparisons, const std::vector<std::string>& warnings);

// --- for people ---
/// Title, table of the run, what bounds it, one line per device.
std::string run_text(const RunResult& run, const TextFormat& format);
/// Warnings on devices that the cluster declares and the schedule leaves idle.
std::vector<std::string> unused_warnings(const Run& run);
/// Warnings where a rewrite cuts the batch into parts that are no whole samples.
std::vector<std::string> share_warnings(const Schedule& schedule, const std::optional<std::int64_t>& batch);
/// Warnings where tensor ranks, of some stage, do not share the heads of an attention; `graph` is that before the
/// schedule's rewrites.
std::vector<std::string> head_warnings(const Graph& graph, const Schedule& schedule);
/// One error per device that holds more than it has.
InputError out_of_memory_error(const Run& run);

/// The run of all of its steps as a run of its own, to be drawn; `bound` is of that run.
RunResult run_of_steps(const RunResult& run, const LowerBound& bound);

}  // namespace trainyard::program
