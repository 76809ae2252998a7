#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// In how many parts the op can be split at most; 0 where not at all. Split are convolutions (Conv,
/// ConvTranspose), products (Gemm, Linear, MatMul) and their gradients, whole ("ConvGrad") or in pieces ("ConvGradX",
/// "ConvGradW", "ConvGradB"). The number is the extent of the dimension by the op's signature, 2^20 where it has none.
std::size_t most_parts(const Graph& graph, OpId op, SplitDimension dimension);

/// The ops that stand in place of a split op; tensors that it wrote have the same names as before. With part i having
/// the share f(i) of the extent (share_of: the extents of parts differ by one at most):
///
///     forward          batch:    data f, weights whole -> outputs f, concatenated
///                      channel:  data whole, weights f -> outputs f, concatenated
///     gradient         batch:    gradient f, saved data f, weights whole -> data gradients f, concatenated;
///                                weight gradients whole, summed
///                      channel:  gradient f, saved data whole, weights f -> data gradients whole, summed;
///                                weight gradients f, concatenated
///
/// Weights are the tensors that ops of type "Variable" make; in a product of two activations, the second operand.
/// Parameters that the op itself holds are held by every part (batch) or in shares (channel). A tensor that is read in
/// shares has one op "Split" before the parts, one read whole is read by each; one op "Concat" or "Sum" per output
/// collects it. The parts have f of FLOPs, workspace and given times; of the traffic, what is whole as it is and f of
/// the rest. "Split" and "Concat" read and write their tensor once, "Sum" reads each part and writes the sum; where the
/// op has given times they take none.
///
/// Op "conv" gives "conv/part0", ..., "conv/split/TENSOR", "conv/concat/TENSOR" (or sum).
///
/// SplitOperation of X. Yi et al.: Fast training of deep learning models over multiple GPUs (FastT). Middleware 2020.
/// There every successor has its own concat node; one is the same and smaller.
///
/// Empty where the op cannot be split so, or into fewer than two parts.
std::vector<OpSpec> split_op_specs(const Graph& graph, OpId op, SplitDimension dimension, std::size_t parts);

/// "batch", "channel".
const char* name_of(SplitDimension dimension);
std::optional<SplitDimension> find_split_dimension(std::string_view name);

}  // namespace trainyard
