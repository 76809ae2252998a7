#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// Largest number of parts into which the op can be split; 0 if it cannot be split. Splittable are convolutions (Conv,
/// ConvTranspose), products (Gemm, Linear, MatMul) and their gradients, whole ("ConvGrad") or in pieces ("ConvGradX",
/// "ConvGradW", "ConvGradB", "MatMulGradA"). The number is the extent of the dimension in the op's signature, or 2^20
/// without a signature.
std::size_t most_parts(const Graph& graph, OpId op, SplitDimension dimension);

/// The ops that replace a split op. The tensors that it wrote keep their names. With f(i) the share of the extent that
/// part i has (share_of: the extents of parts differ by at most one):
///
///     forward          batch:    data f, weights whole -> outputs f, concatenated
///                      channel:  data whole, weights f -> outputs f, concatenated
///     gradient         batch:    gradient f, saved data f, weights whole -> data gradients f, concatenated;
///                                weight gradients whole, summed
///                      channel:  gradient f, saved data whole, weights f -> data gradients whole, summed;
///                                weight gradients f, concatenated
///
/// Weights are the outputs of ops of type "Variable" or, in a product of two activations, the second operand. The
/// gradient of a second operand that is no parameter and has the samples is concatenated along the batch too.
/// Parameters that the op itself holds are held by every part (batch) or in shares (channel). A tensor that is read in
/// shares has one op "Split" before the parts; a tensor that is read whole is read by each part. One op "Concat" or
/// "Sum" per output collects the parts. A part has the fraction f of FLOPs, workspace and given times. Its traffic is
/// that of whole tensors plus f of the rest. "Split" and "Concat" read and write their tensor once; "Sum" reads each
/// part and writes the sum. These ops take no time if the split op has given times.
///
/// Op "conv" becomes "conv/part0", ..., "conv/split/TENSOR", "conv/concat/TENSOR" (or sum).
///
/// SplitOperation of X. Yi et al.: Fast training of deep learning models over multiple GPUs (FastT). Middleware 2020.
/// There every successor has its own concat op; a single one is equivalent and smaller.
///
/// Empty if the op cannot be split in this way, or for fewer than two parts.
std::vector<OpSpec> split_op_specs(const Graph& graph, OpId op, SplitDimension dimension, std::size_t parts);

/// "batch", "channel".
const char* name_of(SplitDimension dimension);
std::optional<SplitDimension> find_split_dimension(std::string_view name);

}  // namespace trainyard
