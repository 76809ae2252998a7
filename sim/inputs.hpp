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

// The words MODEL and CLUSTER as what they name. Wrong words throw UsageError (exit 2), wrong files InputError (exit
// 3).
namespace trainyard::program {

enum class ModelKind : std::uint8_t { network, graph_file, onnx_file, exported_program, profile_file, task_file };
/// The kind of a MODEL: a built-in name, or a file by its extension. A word that is neither names the nearest name.
ModelKind model_kind(const std::string& word);
/// Whether MODEL is a workload of dnn-partitioning, which names devices too.
bool is_workload(const std::string& word);

/// What `make()` returns; findings that name no file are of this one, at the places in its text to which they point.
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

/// What a file of ours names under the key: a schedule's "graph" and "cluster". Empty where it names nothing.
std::string named_in(const std::string& text, const char* key);

/// The graph that MODEL names.
struct LoadedModel {
  Graph graph;
  std::string name;                        // as typed
  std::optional<TrainingSummary> summary;  // none for a graph file
  std::optional<TrainingRecipe> recipe;    // none for a graph file, which does not say what its ops compute
  std::optional<std::int64_t> batch;       // samples of a step; none for a graph file, which does not say
  std::vector<std::string> notes;          // what the importer wants its user to know
};
LoadedModel load_model(const std::string& word, const ModelOptions& options = {});
/// One model; where there are several, their disjoint union (union_graph), each called by its word or the stem of its
/// file.
LoadedModel load_models(const std::vector<std::string>& words, const ModelOptions& options);

/// The cluster that CLUSTER names, with --memory and --sharing.
ClusterSpec load_cluster(const std::string& word, const MachineOptions& options = {});

/// Cluster and costs, with all options in them.
struct Machine {
  Cluster cluster;
  Costs costs = {};
  std::vector<std::string> notes = {};  // of what the calibration does not know
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
/// Refuses schedules from elsewhere whose fold knows nothing of --slow.
void refuse_folded(const Schedule& schedule);
/// Refuses what no backend computes in, or none but that of GPUs.
void refuse_unexecuted(const ModelOptions& options, bool by_gpus);
/// Notes on precision: what it changes, where no calibration says.
std::vector<std::string> precision_notes(const ProblemOptions& options);
/// Warns of what the importer, the calibration and the precision note.
LoadedProblem make_problem(const ProblemOptions& options, Console& console);

}  // namespace trainyard::program
