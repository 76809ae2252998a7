#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The placement that a person would make by hand from the names of the layers (see find_layers):
///
///     recurrent networks          each LSTM layer on a device of its own; with more layers than devices, those of an
///                                 encoder and of a decoder are dealt out apart. Layers before them, and embeddings,
///                                 are with the first; attention, output and all the rest with the last.
///     blocks with branches        if parallel branches are a third of the network: the branches of a block apart, each
///                                 to the device with the least time in this block so far, longest branch first; the
///                                 rest on the first device. Scopes that only follow each other are no branches.
///     else, or if that does not   contiguous runs of layers, in order, one for each device, such that the longest run
///     fit in memory               takes the least time.
///
/// Backward and update ops are where their layer is. Devices that are not worth using (see layer_devices.hpp) only get
/// ops that no other device can run. Recurrent layers are those with an op of type LSTM, GRU or RNN, with one of these
/// in their names, or with Sigmoid and Tanh among their ops.
Schedule place_expert(const Problem& problem);

}  // namespace trainyard
