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

/// A view of the op; its texts are those of the graph.
void view_op(const Graph& graph, OpId op, OpView& view);

/// The name of a copy, counted from 0, behind the mark of its kind: "conv@2" is replica 1's.
std::string copy_name(std::string_view name, char mark, std::size_t copy);
inline constexpr char kReplicaMark = '@', kMicrobatchMark = '~';

/// Leaves it part `part` of `parts` of its work.
void take_part_of_work(OpSpec& spec, std::size_t part, std::size_t parts);

/// A graph of these ops alone, in this order and without their `after`, and one more, "/rest", that makes the tensors
/// of `graph` that they read.
Graph piece_graph(const Graph& graph, std::span<const TensorId> reads, const std::vector<OpSpec>& ops);

/// The tensor is a gradient of parameters: all that read it are updates, aggregations of replicas' gradients, or sums
/// of such gradients ("AddGrad").
bool is_parameter_gradient(const Graph& graph, TensorId tensor);
/// Whether each tensor is: in one pass.
IdMap<TensorId, bool> parameter_gradients(const Graph& graph);

/// Types of the ops that rewrites add.
inline constexpr const char* kVariableType = "Variable";    // holds parameters, its output is what ops read of them
inline constexpr const char* kAggregateType = "Aggregate";  // sums the gradients of replicas
inline constexpr const char* kBoundaryType = "Boundary";    // stands for another stage while one is rewritten
inline constexpr const char* kSplitType = "Split";
inline constexpr const char* kConcatType = "Concat";
inline constexpr const char* kSumType = "Sum";

}  // namespace trainyard
