#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Ops that hold, read and differentiate each parameter, as far as the colocation groups of a training graph tell.
/// The op that holds parameters reads them; so do, among the other ops of its group except those that make weight
/// gradients alone (types ending in "GradW", "GradB") and updates, those of its layer, or all where the layers tell
/// none apart.
struct ParameterUse {
  /// `context`: ranks that share the rows of a sequence, of those that have shares of the batch.
  explicit ParameterUse(const Graph& graph, std::size_t context = 1);

  IdMap<OpId, std::vector<OpId>> reads;  // the ops whose parameters it reads, itself included
  IdMap<OpId, bool> in_group;            // of a group with parameters; not the one that holds them, nor an update
  IdMap<TensorId, bool> is_gradient;     // of parameters (is_parameter_gradient)
  IdMap<OpId, bool> adds_gradients;      // of parameters, and does nothing else
  IdMap<OpId, bool> hands_on_weights;    // a "Variable", or what hands on what these hold; not for an update
  /// Bytes of `reads`; of weights handed on with others', as many as it has gradients; none of tables, which lookups
  /// and their gradients read by rows.
  IdMap<OpId, Bytes> weights_read;

  /// What all samples have together, and its gradients. Inputs of one row where there are several samples, as
  /// positions; what the forward pass makes of these and of parameters alone, as a bias of scores by position, and not
  /// as long as the samples: what begins with as many rows, the rows of a table that a constant asks for, may be of
  /// these.
  IdMap<TensorId, bool> for_all;
  IdMap<OpId, bool> is_for_all;  // it makes what is for all, or gradients of that alone: the samples are nothing to it
  std::size_t context;

  /// A product with parameters, or their gradient: shares of the batch are shares of its rows.
  bool multiplies_weights(const Graph& graph, OpId op) const;

 private:
  void find_weights(const Graph& graph);
  void find_for_all(const Graph& graph);
  void find_gradients_for_all(const Graph& graph);
};

/// True if the op holds parameters or state, and is no update.
bool holds_parameters(const Graph& graph, OpId op);

/// True for a training step, whose batch can be divided: it has updates, and parameters that no "Variable" holds.
bool trains_parameters(const Graph& graph);

/// Share `part` of `parts` of the whole; all shares make it up, and differ by one at most.
std::int64_t share_of(std::int64_t whole, std::size_t part, std::size_t parts);

/// Makes the op one of `parts` that each have their share of the batch: of FLOPs, workspace, given times and what it
/// writes, and of the traffic but for parameters and their gradients. Not divided are gradients of parameters, what
/// adds them, weights that are handed on, statistics (Graph::statistics), and tensors of at most 8 bytes; what is for
/// all samples, and its gradients, are divided among the ranks alone that share their rows.
void take_share(OpSpec& spec, const Graph& graph, OpId op, const ParameterUse& use, std::size_t part,
                std::size_t parts);
/// Takes the share of the work alone, not of the signature: one of so many parts; 0 where nothing of the op but what it
/// writes is divided.
template <class OpSpecOrView>
std::size_t take_share_of_work(OpSpecOrView& op, const Graph& graph, OpId id, const ParameterUse& use, std::size_t part,
                               std::size_t parts);

}  // namespace trainyard
