#pragma once

#include <span>

#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// A training step that keeps some tensors of the forward pass in host memory until the backward pass reads them.
///
/// For each tensor t of b bytes there are two ops on a device of class cpu, which take no time:
///
///     t/away    reads t, makes "t/away", b bytes: the copy in host memory. `away_before` waits for it
///     t/back    reads "t/away" after `back_after`, makes "t/back", b bytes: the backward pass reads it in place of t
///
/// So t goes to the host as soon as it is made, over the links between device and host. Its device holds it until its
/// forward readers and that transfer have ended, which is at the latest when `away_before` starts. It comes back after
/// `back_after` has ended, and takes device memory from the start of that transfer. The host holds b bytes from the
/// start of the first transfer to the end of the second, in one buffer for both. Frameworks use pinned memory in this
/// way, but with buffers of whole pages that stay allocated from step to step. The executors of this project run the
/// two ops as copies within host memory, which take no time in the simulation, and hold source and destination
/// meanwhile.
///
/// M. Rhu, N. Gimelshein, J. Clemons, A. Zulfiqar, S. Keckler: vDNN: virtualized deep neural networks for scalable,
/// memory-efficient neural network design. MICRO 2016. There a layer waits until the previous layer's tensors are
/// offloaded (`away_before` is the next op), and each layer's backward pass fetches for the layer before it.
///
/// Ops and tensors of `graph` keep their ids. Throws InputError: "unknown-tensor" (not in the graph); "offload" (a
/// tensor that is not of the forward pass, is kept, is not read after the forward pass, or is named twice; a collective
/// as `away_before` or `back_after`); "unknown-op"; "cycle" (an `away_before` that the tensor depends on, or a
/// `back_after` that depends on the tensor's return).
Graph offload(const Graph& graph, std::span<const Offload> tensors);

/// Suffixes of the two ops and of the tensors that they make.
inline constexpr const char* kAway = "/away";
inline constexpr const char* kBack = "/back";

}  // namespace trainyard
