#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The ops that hold, read and differentiate each parameter, as far as the colocation groups of a training graph tell.
/// An op that holds parameters reads them. Another op of the group reads the parameters that are held in its layer, or
/// all of the group if none are. Updates, and ops that only make weight gradients (types ending in "GradW", "GradB") or
/// add them, read none.
struct ParameterUse {
  /// `context`: number of ranks that share the rows of a sequence, among those that divide the batch.
  explicit ParameterUse(const Graph& graph, std::size_t context = 1);

  IdMap<OpId, std::vector<OpId>> reads;  // holders of the parameters that the op reads, itself included
  IdMap<OpId, bool> in_group;            // in a group with parameters; neither their holder nor an update
  IdMap<TensorId, bool> is_gradient;     // of parameters (is_parameter_gradient)
  IdMap<OpId, bool> adds_gradients;      // the op only adds gradients of parameters
  IdMap<OpId, bool> hands_on_weights;    // a "Variable", or an op that passes on its weights; not an update
  /// Bytes of weights that each op reads. Weights that are gathered together with others (ZeRO 3) count at most as many
  /// bytes as the op's group and layer have gradients. Tables count 0, as lookups and their gradients read only rows.
  IdMap<OpId, Bytes> weights_read;

  /// Tensors that all samples have in common, and their gradients: inputs with one row while there are several samples
  /// (such as positions), and what the forward pass makes of only these and parameters (such as a position bias of the
  /// scores). A result with as many rows as there are samples counts only if its readers see one row, as it may else
  /// belong to the samples (rows of a table that a constant selects).
  IdMap<TensorId, bool> for_all;
  IdMap<OpId, bool> is_for_all;  // makes only tensors of `for_all`: independent of the samples
  std::size_t context;

  /// Whether the op is a MatMul with parameters, or a gradient of one. A share of the batch is then a share of its
  /// rows.
  bool multiplies_weights(const Graph& graph, OpId op) const;

 private:
  void find_weights(const Graph& graph);
  void find_for_all(const Graph& graph);
  void find_gradients_for_all(const Graph& graph);
};

/// True if the op holds parameters or state and is not an update.
bool holds_parameters(const Graph& graph, OpId op);

/// True for a training step whose batch can be divided: it has updates, and parameters that no "Variable" holds.
bool trains_parameters(const Graph& graph);
/// Throws InputError of this code and remedy if the graph has no batch to divide (trains_parameters).
void check_batch(const Graph& graph, std::string_view code, std::string_view help);

/// Size of share `part` of `parts` of the whole. The shares add up to the whole and differ by at most one.
std::int64_t share_of(std::int64_t whole, std::size_t part, std::size_t parts);

/// Makes the op one of `parts` that each have their share of the batch. Divides FLOPs, workspace, given times, outputs,
/// and the traffic except that of parameters and their gradients. Not divided are gradients of parameters, ops that add
/// them, weights that are passed on, statistics (Graph::statistics), and tensors of at most 8 bytes. Tensors that all
/// samples have in common, and their gradients, are divided only among ranks that share their rows.
void take_share(OpSpec& spec, const Graph& graph, OpId op, const ParameterUse& use, std::size_t part,
                std::size_t parts);
/// Takes the share of the work, but not of the signature. Returns the number of parts that divide the work; 0 if at
/// most the outputs of the op are divided.
template <class OpSpecOrView>
std::size_t take_share_of_work(OpSpecOrView& op, const Graph& graph, OpId id, const ParameterUse& use, std::size_t part,
                               std::size_t parts);

}  // namespace trainyard
