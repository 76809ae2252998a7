#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/transform/training.hpp"

namespace trainyard::program {

/// What MODEL names, as a graph.
struct LoadedModel {
  Graph graph;
  std::string name;                        // as typed
  std::optional<TrainingSummary> summary;  // none for a graph file
  std::vector<std::string> notes;          // what the importer wants its user to know
};

// Wrong words throw UsageError (exit 2), wrong files InputError (exit 3).

enum class ModelKind : std::uint8_t { network, graph_file, onnx_file, profile_file, task_file };
/// What a MODEL is: a built-in name, or a file by its extension. A word that is neither names the nearest name.
ModelKind model_kind(const std::string& word);
/// `recipe` gets what the ops compute; a graph file does not say it, and leaves it as it is.
LoadedModel load_model(const std::string& word, const Arguments& arguments, TrainingRecipe* recipe = nullptr);

/// All MODELs of the arguments; where there are several, their disjoint union (union_graph), each called by its word or
/// the stem of its file.
LoadedModel load_models(const Arguments& arguments);
/// "resnet50:batch=8" of the word itself, "toy" of "graphs/toy.json.gz".
std::string short_name(const std::string& word);

/// Whether MODEL is a workload of dnn-partitioning, which names devices too.
bool is_workload(const std::string& word);

/// What CLUSTER names; without one, the devices that the only MODEL names itself, with the --memory and the
/// --sharing of the arguments.
ClusterSpec load_cluster(const Arguments& arguments);

/// --scale and --co-run.
CostModel load_costs(const Arguments& arguments);

/// Cluster and costs, with the --costs of the arguments in both.
struct Machine {
  Cluster cluster;
  CostModel costs;
  std::vector<std::string> notes;  // of what the calibration does not know
};
Machine load_machine(const Arguments& arguments);

/// --placer (heft unless given; the policy's with --policy, and then it places by that), --parameter and --seed.
const Placer& chosen_placer(const Arguments& arguments);
PlaceOptions place_options(const Arguments& arguments, const Placer& placer);
std::uint64_t chosen_seed(const Arguments& arguments);

/// The only operand, or the error that one is missing ("simulate needs a MODEL") or that there are more.
const std::string& only_operand(const Arguments& arguments, std::string_view what, std::string_view example);

/// A whole number of at least `least`, or the error.
std::int64_t whole_number(const std::string& text, std::string_view option, std::int64_t least);

}  // namespace trainyard::program
