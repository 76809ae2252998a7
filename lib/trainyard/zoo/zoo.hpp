#pragma once

#include <span>
#include <string_view>

#include "trainyard/model/model.hpp"
#include "trainyard/zoo/network.hpp"

namespace trainyard {

/// Every network that can be built by name, grouped by kind: convolutional, recurrent, transformers.
///
/// They are forward networks as trained: dropout is there and batch norms use the batch's statistics. The loss is not:
/// the training graph adds it. Their layers are named for reports and layer-wise placers:
///
///     "layer1.0", "conv3.1", "encoder.5", "lstm0"      a block of the chain, in its order in the network
///     "mixed_5b/branch3x3", "fire3/expand1x1"          one of the parallel branches of a block; what joins them, and
///                                                       what they share, is in the block itself ("mixed_5b")
///
/// so the block of a layer is what stands before the first '/', and its branch what stands after it. All unrolled steps
/// of a recurrent layer are in one layer; embeddings, attention and the output projection have layers of their own
/// ("embedding", "encoder_embedding", "attention", "head").
std::span<const Network> networks();

/// The network of that name, or null.
const Network* find_network(std::string_view name);

/// Builds a network from a spec: its name, then optionally ':' and NAME=WHOLE NUMBER pairs between commas, as in
/// "resnet50:batch=32,classes=10". The model's name is the spec.
/// Throws InputError: "unknown-network", "unknown-parameter" (both with the nearest name and what there is),
/// "repeated-parameter", "spec" (not of that form), "range" (a number outside of its parameter's range),
/// "does-not-divide" (hidden is not a multiple of heads), "too-small" (an image of which nothing is left), "too-large"
/// (a tensor of more than 2^44 elements, more than 65536 unrolled cells).
Model make_network(std::string_view spec);

}  // namespace trainyard
