#pragma once

#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Whether make_shape() knows the spec's shape.
bool is_shape(std::string_view spec);

/// A random graph, drawn with a seed from a spec like those of networks (make_network):
/// "layered:ops=40,width=6,seed=3". The shapes, with op i of n:
///
///     chain       reads op i - 1
///     fork-join   one op, `width` branches of 1 to 3 ops each, one op that joins them, and so on
///     layered     layers of `width` ops; reads 1 to 3 ops of the layer before, each with probability 1/10 of the layer
///                 before that one
///     random      reads 1 to 3 of all earlier ops ("samepred" of Tobita and Kasahara 2002)
///     tree        reads ops 2 i - n and 2 i - n - 1 if they exist: leaves first, one root
///     mesh        rows of `width` ops; reads the op before it in its row and the one above it
///
/// Half of the ops are matrix products of 1 to 16 GFLOP with 1 to 16 MB of parameters and twice as much state. The
/// others move 100 to 1600 MB. Tensors have `ccr` percent of 1 to 16 MB. With training=1 each op also has a backward
/// op, which reads the op's inputs and the gradients of its output, and is on its device if the op has parameters; this
/// doubles the number of ops.
///
/// Throws InputError: "unknown-network", "unknown-parameter", "spec", "range".
Graph make_shape(std::string_view spec);

}  // namespace trainyard
