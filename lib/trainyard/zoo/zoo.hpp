#pragma once

#include <span>
#include <string_view>

#include "trainyard/model/model.hpp"
#include "trainyard/zoo/network.hpp"

namespace trainyard {

/// Every network that can be built by name, grouped by kind: convolutional, recurrent, transformers.
///
/// These are forward networks as they are trained: with dropout, and batch norms that use the batch's statistics. The
/// training graph adds the loss. Layers are named for reports and layer-wise placers:
///
///     "layer1.0", "conv3.1", "encoder.5", "lstm0"      a block of the chain; blocks are numbered in network order
///     "mixed_5b/branch3x3", "fire3/expand1x1"          one of the parallel branches of a block; ops that join or feed
///                                                       branches are in the block itself ("mixed_5b")
///
/// so a layer's block is the text before the first '/', and its branch the text after it. All unrolled steps of a
/// recurrent layer are in one layer. Embeddings, attention and the output projection have their own layers
/// ("embedding", "encoder_embedding", "attention", "head").
std::span<const Network> networks();

/// The network with this name, or null.
const Network* find_network(std::string_view name);

/// Builds a network from a spec: its name, optionally followed by ':' and comma-separated NAME=WHOLE NUMBER pairs, as
/// in "resnet50:batch=32,classes=10". The model's name is the spec. Throws InputError: "unknown-network",
/// "unknown-parameter" (both with the nearest name and all known ones), "repeated-parameter", "spec" (not of that
/// form), "range" (a number outside its parameter's range), "does-not-divide" (for example hidden is not a multiple of
/// heads), "too-small" (an image of which nothing is left), "too-large" (a tensor of more than 2^44 elements, or more
/// than 8,192 unrolled cells).
Model make_network(std::string_view spec);

}  // namespace trainyard
