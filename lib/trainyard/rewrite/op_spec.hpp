#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/spec_of.hpp"

namespace trainyard {

/// Fills `view` with the op. Its texts refer to the graph.
void view_op(const Graph& graph, OpId op, OpView& view);

/// Name of a copy, with its number (from 0) after the mark of its kind: "conv@2" is that of replica 1.
std::string copy_name(std::string_view name, char mark, std::size_t copy);
inline constexpr char kReplicaMark = '@', kMicrobatchMark = '~';

/// Leaves the op part `part` of `parts` of its work: FLOPs, traffic, given times, signature.
void take_part_of_work(OpSpec& spec, std::size_t part, std::size_t parts);

/// A graph of these ops alone, in this order and without their `after`. One more op, "/rest", makes the tensors `reads`
/// of `graph`.
Graph piece_graph(const Graph& graph, std::span<const TensorId> reads, const std::vector<OpSpec>& ops);

/// Whether the tensor is a gradient of parameters: all its readers are updates, or ops that only add or pass on such
/// gradients ("AddGrad", aggregations, ops of collectives).
bool is_parameter_gradient(const Graph& graph, TensorId tensor);
/// is_parameter_gradient() of each tensor, in one pass.
IdMap<TensorId, bool> parameter_gradients(const Graph& graph);
/// Whether the op belongs to the backward pass and makes `gradients` (parameter_gradients), and no other tensors.
bool makes_only_gradients(const Graph& graph, OpId op, const IdMap<TensorId, bool>& gradients);

/// Whether the step limits the norm of its gradients.
bool clips(const Graph& graph);

/// Types of the ops that rewrites add.
inline constexpr const char* kVariableType = "Variable";    // holds parameters, which other ops read as its output
inline constexpr const char* kAggregateType = "Aggregate";  // sums the gradients of replicas
inline constexpr const char* kBoundaryType = "Boundary";    // stands in for another stage while one is rewritten
inline constexpr const char* kSplitType = "Split";
inline constexpr const char* kConcatType = "Concat";
inline constexpr const char* kSumType = "Sum";

}  // namespace trainyard
