#pragma once

#include <span>

#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// A training step that keeps some tensors of the forward pass in the host's memory until the backward pass reads them.
///
/// Two ops on a device of class cpu, which take no time, stand for each tensor t of b bytes:
///
///     t/away    reads t, makes "t/away", b bytes: the copy in the host's memory. `away_before` waits for it
///     t/back    reads "t/away" after `back_after`, makes "t/back", b bytes: what the backward pass reads in t's place
///
/// So t goes to the host as soon as it is made, on the links between the two; its device holds it until its readers in
/// the forward pass and that transfer have ended, which is no later than `away_before` starts. It comes back once
/// `back_after` has ended, and is held from the start of that transfer on. The host holds b bytes from the start of the
/// first transfer to the end of the second: one buffer that both transfers use, as frameworks have it in pinned memory,
/// but that theirs are of whole pages and stay allocated from step to step. The executors here run the two ops as
/// copies within the host's memory, of no time in the simulation, and hold both ends meanwhile.
///
/// M. Rhu, N. Gimelshein, J. Clemons, A. Zulfiqar, S. Keckler: vDNN: virtualized deep neural networks for scalable,
/// memory-efficient neural network design. MICRO 2016: there a layer waits until what the layer before it offloads is
/// away (`away_before` the next op), and each layer's backward pass fetches for the one before it.
///
/// Ops and tensors of `graph` keep their ids. Throws InputError: a tensor that the graph does not have
/// ("unknown-tensor"), that is not of the forward pass, is kept, is not read after the forward pass, or is named twice
/// ("offload"); an op that it does not have ("unknown-op"), a collective as one of the two ("offload"), an
/// `away_before` that the tensor depends on, or a `back_after` that depends on the tensor's return ("cycle").
Graph offload(const Graph& graph, std::span<const Offload> tensors);

/// Suffixes of the two ops and of what they make.
inline constexpr const char* kAway = "/away";
inline constexpr const char* kBack = "/back";

}  // namespace trainyard
