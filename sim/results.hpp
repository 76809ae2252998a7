#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inputs.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/report/page.hpp"
#include "trainyard/report/summary.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/simulate/steps.hpp"

namespace trainyard::program {

/// The run under --objective max-load.
struct LoadResult {
  Nanoseconds value{};  // RunSummary::max_load
  Nanoseconds bound{};  // no placement has less
  std::string bound_name = {};
};

/// When each model ends.
struct CompletionResult {
  std::vector<std::pair<std::string, Nanoseconds>> models = {};
  Nanoseconds total{};  // the sum
  Nanoseconds bound{};  // no schedule has a smaller sum
};

/// One run, whole.
struct RunResult {
  std::string model, cluster;
  std::string placer;  // empty: the schedule came from a file
  Problem problem;
  Schedule schedule;
  Timeline timeline;
  RunSummary summary;
  std::optional<double> search_seconds;
  std::optional<StepTimes> steps = {};              // --steps
  std::optional<NoiseResult> noise = {};            // --noise
  std::optional<NoiseResult> steps_noise = {};      // --steps and --noise: of the time per step
  std::optional<LoadResult> load = {};              // --objective max-load
  std::optional<CompletionResult> completion = {};  // of several models
  bool by_completion = false;                       // --objective completion
};

/// Of the problem that a schedule with splits is of, where that is another one.
LowerBound bound_for(const Problem& problem, const Problem& scheduled, const LowerBound& bound);

/// Places and simulates.
RunResult run_placer(const std::string& model, const Problem& problem, const LowerBound& bound, const Placer& placer,
                     const PlaceOptions& options);

/// One of several runs of a placer, each with a seed of its own.
struct SeedRun {
  std::uint64_t seed = 1;
  Nanoseconds value{};  // what is compared
  bool fits = true;
  double search_seconds = 0;
};

/// One line of a comparison: what is left of a run once the timeline is dropped. Of several repeats the middle one by
/// what is compared (the better of the two where there are two in the middle).
struct CompareRow {
  std::string model, cluster, placer;
  RunSummary summary;
  double ratio_to_best = 1;               // of the best that fits on this model and cluster; else of the best
  double search_seconds = 0;              // the mean over the repeats
  Outcome best_order = {};                // of its placement, under the best order known
  bool splits = false;                    // its schedule is of a graph with ops split
  std::string peak;                       // for people
  std::vector<std::string> devices = {};  // of the cluster, with
  std::vector<Bytes> peaks = {};          // what each holds at most
  std::optional<NoiseResult> noise = {};
  std::optional<NoiseComparison> beats_best = {};   // with noise: shorter than the first row of its model
  std::optional<CompletionResult> completion = {};  // --objective completion: what is compared then
  std::vector<SeedRun> repeats = {};                // by seed; empty where there is one run
  std::size_t group = 0;                            // rows of one model on one cluster

  Nanoseconds value() const { return completion ? completion->total : summary.makespan; }
  Nanoseconds bound() const { return completion ? completion->bound : summary.bound.value; }
  double gap() const;
  bool optimal() const { return completion ? summary.fits && value() == bound() : summary.optimal; }
};

/// The rows of each model on each cluster, which follow each other.
std::vector<std::span<const CompareRow>> compare_groups(std::span<const CompareRow> rows);
/// The rows of a group for people.
Table compare_table(std::span<const CompareRow> group);
/// All rows as CSV with a line of titles.
void write_compare_csv(std::span<const CompareRow> rows, std::ostream& out);

/// A placer that gave no schedule, and why.
struct SkippedPlacer {
  std::string model, cluster, placer, why;
};

/// What import says of a graph.
struct GraphFacts {
  std::string name;
  std::size_t ops = 0, tensors = 0;
  std::optional<std::int64_t> parameters, saved_bytes;  // not known of a graph file
  /// Of convolutions and matrix products alone, which is what published counts are; of a graph file, of all ops.
  double forward_flops = 0, backward_flops = 0;
  double forward_total_flops = 0, backward_total_flops = 0, update_flops = 0;  // of all ops
  std::int64_t parameter_bytes = 0, state_bytes = 0;
};
GraphFacts facts_of(const LoadedModel& model);

// --- for programs: one JSON object; units are in the names of the keys ---
std::string import_json(const GraphFacts& facts, const std::vector<std::string>& warnings);
/// `verb` is "simulate" or "place".
std::string run_json(const std::string& verb, const RunResult& run, const std::vector<std::string>& warnings);
std::string compare_json(const std::vector<CompareRow>& rows, const std::vector<SkippedPlacer>& skipped,
                         const std::vector<std::string>& warnings);

// --- for people ---
/// Title, table of the run, what bounds it, one line per device.
std::string run_text(const RunResult& run);
/// "resnet50 on 4xV100: 1,184 ops, 1,402 tensors, 4 devices".
std::string problem_title(const std::string& model, const Problem& problem);
/// Warnings on devices that the cluster declares and the schedule leaves idle.
std::vector<std::string> unused_warnings(const Problem& problem, const RunSummary& run);
/// One error per device that holds more than it has.
InputError out_of_memory_error(const RunResult& run);

/// The run of all of its steps as a run of its own, to be drawn; `bound` is of that run.
RunResult run_of_steps(const RunResult& run, const LowerBound& bound);

/// What the page shows of a run.
PageRun page_run(const RunResult& run);

}  // namespace trainyard::program
