#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "console.hpp"
#include "options.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cost/costs.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/findings.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/training/training.hpp"

// Resolves the words MODEL and CLUSTER. A wrong word throws UsageError (exit code 2), a wrong file InputError (exit
// code 3).
namespace trainyard::program {

enum class ModelKind : std::uint8_t { network, graph_file, onnx_file, exported_program, profile_file, task_file };
/// Kind of a MODEL: a built-in network by name, or a file by content and extension. Throws UsageError with the nearest
/// name if it is neither, and InputError ("file") for a missing file.
ModelKind model_kind(const std::string& word);
/// Whether MODEL is a workload of dnn-partitioning, which also describes devices.
bool is_workload(const std::string& word);

/// Returns `make()`. Findings it throws without a file are attributed to `path`, at the place in `text` that they point
/// to.
template <class Make>
auto in_file(const std::string& path, const Make& make, std::string_view text = {}) {
  try {
    return make();
  } catch (const NoPlacementError&) {
    throw;
  } catch (const InputError& error) {
    std::vector<Finding> findings = error.findings();
    for (Finding& finding : findings)
      if (finding.at.file.empty()) finding.at = location_of(input_name(path), text, finding.pointer);
    throw InputError{std::move(findings)};
  }
}

/// Value of a key, "graph" or "cluster", in the text of a schedule or timeline file. Empty if it is absent.
std::string named_in(const std::string& text, const char* key);

/// The graph that MODEL names.
struct LoadedModel {
  Graph graph;
  std::string name;                        // as typed
  std::optional<TrainingSummary> summary;  // absent for a graph file
  std::optional<TrainingRecipe> recipe;    // absent for a graph file, whose ops have no definition
  std::optional<std::int64_t> batch;       // samples of a step; absent for a graph file
  std::vector<std::string> notes;          // of the importer, for the user
};
LoadedModel load_model(const std::string& word, const ModelOptions& options = {});
/// Loads one model, or the disjoint union (union_graph) of several. Each member of a union is named after its word or
/// the stem of its file.
LoadedModel load_models(const std::vector<std::string>& words, const ModelOptions& options);

/// The cluster that CLUSTER names, with --memory, --sharing and the label applied.
ClusterSpec load_cluster(const std::string& word, const MachineOptions& options = {});

/// Cluster and costs with all machine options applied.
struct Machine {
  Cluster cluster;
  Costs costs = {};
  std::vector<std::string> notes = {};  // on gaps in the calibration
};
Machine load_machine(const std::string& word, const MachineOptions& options);

/// Machine and models as a problem.
struct LoadedProblem {
  std::string name;  // of the model, as typed
  Problem problem;
  std::optional<TrainingRecipe> recipe = {};  // LoadedModel::recipe
  std::optional<std::int64_t> batch = {};     // LoadedModel::batch
  bool slow = false;                          // --slow
};
/// Throws UsageError for a folded schedule: --slow cannot slow down a device that stands for others.
void refuse_folded(const Schedule& schedule);
/// Throws UsageError for a precision that no backend computes in, or (unless `by_gpus`) that only GPUs compute in.
void refuse_unexecuted(const ModelOptions& options, bool by_gpus);
/// Notes on what --precision changes, if no calibration gives the times.
std::vector<std::string> precision_notes(const ProblemOptions& options);
/// Loads machine and models. Warns with the notes of the importer, of the machine and on precision.
LoadedProblem make_problem(const ProblemOptions& options, Console& console);

}  // namespace trainyard::program
