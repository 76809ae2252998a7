#pragma once

#include "trainyard/core/checkpoint.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/data_parallel.hpp"

namespace trainyard::detail {

/// Data parallelism in which every replica has weights of its own: n copies of every op, updates too, and what their
/// gradients go through before. With P, G, O the bytes of parameters, gradients and optimizer state:
///
///     zero   held by each of n replicas          sent by each, times (n - 1)/n
///     0      P + G + O                           2 G           all-reduce
///     1      P + G + O/n                         G + P         reduce-scatter; all-gather of updated weights
///     2      P + (G + O)/n                       G + P         the same; gradients go as soon as they are added,
///                                                              within the backward pass
///     3      (P + G + O)/n                       G + 2 P       weights are gathered before they are read, in the
///                                                              forward and in the backward pass
///
/// Gradients are added in buckets of at least `bucket` bytes, filled in the order in which the backward pass makes
/// them; all parameters of a colocation group go into one. Stage 3 gathers weights by these buckets too: before the ops
/// that read one, all that read the last but one (in their order of first use) have ended, so that two at most are
/// there at a time. From stage 1 on, each replica updates its share, at 1/n of the cost. Of m microbatches (Microbatch
/// behind Replicate) stages 0 and 1 add up whole gradients first; from stage 2 on each scatters its own, of which
/// replicas add up their shares, as DeepSpeed does and PyTorch's FSDP outside of no_sync(): stage 2 sends m G + P. With
/// stage 3 each gathers all weights, too (MicrobatchGraph): m (G + 2 P). In both stages gradients of a bucket are made
/// once the last but one before it has been scattered, "reduce-scatter/BUCKET/turn", so that two at most are there at a
/// time. The first two buckets of a microbatch wait for the last two of the microbatch before; a single bucket waits
/// for none.
///
/// In a pipeline (Replicate::stages) a bucket has gradients of one stage.
///
/// Expert parallelism (Replicate::experts), e consecutive replicas a group. Each holds E/e of the E experts of a
/// mixture, with their gradients and state, and computes these for the tokens of all e: as many rows as without, [E/e,
/// e rows]. What is dispatched to experts and what they made, and the gradients of both, [E, rows], go by an all-to-all
/// of the group, "TENSOR/all-to-all/GROUP/...", of which each sends (e - 1)/e: four a mixture, "TENSOR/exchanged".
/// Gradients of experts are added among the n/e replicas that hold the same ones, not at all where e is n. As capacity
/// is counted by sample (ExpertSlots), ranks drop the tokens that one device drops.
///
/// Context parallelism (Replicate::context), c consecutive replicas a group: a replica has 1/c of the sequence of each
/// sample of its group, so that the batch is divided among n/c, and exchanges what ContextUse says: by all-gathers
/// "TENSOR/all-gather/GROUP/...", of the backward pass when the gradient of the result is there, reduce-scatters and
/// all-to-alls; or in a ring, whose steps are "ATTENTION/step/0", ... and ATTENTION itself, the last one; the shift of
/// keys and values for a step begins with the step before. K and V are the bytes of keys and values of all rows, Q of
/// queries and of the result; a rank sends, times (c - 1)/c, in the forward and in the backward pass
///
///     all-gather     K + V             2 (K + V)
///     all-to-all     (2 Q + K + V)/c   (2 Q + K + V)/c
///     ring           K + V             2 (K + V) and (K + V)/(c - 1)
///
/// A copy of a colocation group with parameters is one group "GROUP@2", and the ops of a bucket are in that of its
/// first parameters; what adds and sends them is named "all-reduce/BUCKET/...", "reduce-scatter/", "all-gather/",
/// "fetch/"; buckets are numbered from `first_bucket`. Parameters without an update are held by every replica in any
/// stage, as are those whose gradients tensor ranks add up after the replicas (tensor_parallel), in buckets of their
/// own by all-reduces; state is divided whole, running statistics too.
///
/// D. Lepikhin et al.: GShard: scaling giant models with conditional computation and automatic sharding. ICLR 2021,
/// section 3. S. Rajbhandari, J. Rasley, O. Ruwase, Y. He: ZeRO: memory optimizations toward training trillion
/// parameter models. SC 2020. S. Li et al.: PyTorch distributed: experiences on accelerating data parallel training.
/// VLDB 2020.
DataParallelGraph replicate(const Graph& graph, const Replicate& options, bool divide_batch, std::size_t first_bucket,
                            Checkpoint checkpoint);

}  // namespace trainyard::detail
