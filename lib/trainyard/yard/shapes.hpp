#pragma once

#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Whether the spec is one of make_shape().
bool is_shape(std::string_view spec);

/// A graph drawn by a seed, from a spec as of networks (make_network): "layered:ops=40,width=6,seed=3". Shapes, with op
/// i of n:
///
///     chain       reads op i - 1
///     fork-join   an op, `width` branches of 1 to 3 ops each, the op that joins them, and again
///     layered     layers of `width`; reads 1 to 3 of the layer before, one in ten of them of the layer before that
///     random      reads 1 to 3 of all before it ("samepred" of Tobita and Kasahara 2002)
///     tree        reads ops 2 i - n and 2 i - n - 1 where there are such: leaves first, one root
///     mesh        rows of `width`; reads the op before it in its row, and the one above it
///
/// Half of the ops are products of 1 to 16 GFLOP with 1 to 16 MB of parameters and twice as much state; the others move
/// 100 to 1600 MB. Tensors have `ccr` percent of 1 to 16 MB. With training=1 each op has a backward one, which reads
/// what the op reads and the gradients of what it made, and shares its device where it has parameters: twice the ops.
///
/// Throws InputError: "unknown-network", "unknown-parameter", "spec", "range".
Graph make_shape(std::string_view spec);

}  // namespace trainyard
