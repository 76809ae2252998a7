#pragma once

#include "trainyard/core/checkpoint.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/data_parallel.hpp"

namespace trainyard::detail {

/// Data parallelism in which every replica has its own weights: n copies of every op, including updates, and
/// collectives that reduce the gradients before the updates. With P, G, O the bytes of parameters, gradients and
/// optimizer state:
///
///     zero   held by each of n replicas          sent by each, times (n - 1)/n
///     0      P + G + O                           2 G           all-reduce
///     1      P + G + O/n                         G + P         reduce-scatter; all-gather of updated weights
///     2      P + (G + O)/n                       G + P         as 1, but gradients are scattered as soon as they are
///                                                              made, within the backward pass
///     3      (P + G + O)/n                       G + 2 P       weights are gathered before they are read, in the
///                                                              forward and in the backward pass
///
/// Gradients are reduced in buckets of at least `bucket` bytes, filled in the order in which the backward pass makes
/// them. All parameters of a colocation group go into one bucket. Stage 3 gathers weights by these buckets too. The
/// gather of a bucket waits for the readers of the bucket two before it (in order of first use, of the same pipeline
/// stage and tensor rank), so that at most two are in memory at a time. From stage 1 on, each replica updates its
/// share, at 1/n of the cost.
///
/// With m microbatches (a Microbatch rewrite after Replicate), stages 0 and 1 accumulate whole gradients first. From
/// stage 2 on, each microbatch scatters its own gradients, and replicas accumulate their shares, as in DeepSpeed and in
/// PyTorch's FSDP outside of no_sync(): stage 2 sends m G + P. In stage 3 each microbatch also gathers all weights
/// (MicrobatchGraph): m (G + 2 P). In both stages, the gradients of a bucket are made only after the bucket two before
/// it has been scattered ("reduce-scatter/BUCKET/turn"), so that at most two are in memory at a time. The first two
/// buckets of a microbatch wait for the last two of the previous microbatch; a single bucket waits for none.
///
/// In a pipeline (Replicate::stages) a bucket has gradients of one stage only.
///
/// Expert parallelism (Replicate::experts): groups of e consecutive replicas. Each holds E/e of the E experts of a
/// mixture, with their gradients and state, and computes these for the tokens of all e replicas: as many rows as
/// without, [E/e, e rows]. All-to-alls of the group, "TENSOR/all-to-all/GROUP/...", exchange the tokens dispatched to
/// experts, the results of experts, and the gradients of both, [E, rows]: four per mixture, which make
/// "TENSOR/exchanged". Each replica sends (e - 1)/e of its array. Gradients of experts are reduced among the n/e
/// replicas that hold the same experts, and not at all if e is n. In stages 1 to 3 these replicas divide what
/// they hold of their experts, with n/e in place of n in the table above, and all n replicas what they hold of the
/// other weights. As capacity is counted per sample (ExpertSlots), ranks drop the tokens that one device drops.
///
/// Context parallelism (Replicate::context): groups of c consecutive replicas. A replica has 1/c of the sequence of
/// each sample of its group, so that the batch is divided among n/c groups. The exchanges of ContextUse are all-gathers
/// "TENSOR/all-gather/GROUP/...", reduce-scatters and all-to-alls. All-gathers for the backward pass wait for the
/// gradient of the result. In a ring, the steps are "ATTENTION/step/0", ..., and ATTENTION itself is the last one. The
/// shift of keys and values for a step begins with the step before. With K and V the bytes of keys and values of all
/// rows, and Q those of queries and of the result, a rank sends, times (c - 1)/c, in the forward and in the backward
/// pass
///
///     all-gather     K + V             2 (K + V)
///     all-to-all     (2 Q + K + V)/c   (2 Q + K + V)/c
///     ring           K + V             2 (K + V) and (K + V)/(c - 1)
///
/// A copy of a colocation group with parameters is one group "GROUP@2", and the ops of a bucket are in the group of its
/// first parameters. The ops that reduce and send a bucket are named "all-reduce/BUCKET/...", "reduce-scatter/",
/// "all-gather/", "fetch/"; buckets are numbered from `first_bucket`. At any stage every replica holds the parameters
/// without an update, and those whose gradients tensor ranks add up after the replicas (tensor_parallel). The latter
/// have their own buckets, reduced by all-reduces. State is divided as a whole, including running statistics.
///
/// D. Lepikhin et al.: GShard: scaling giant models with conditional computation and automatic sharding. ICLR 2021,
/// section 3. S. Rajbhandari, J. Rasley, O. Ruwase, Y. He: ZeRO: memory optimizations toward training trillion
/// parameter models. SC 2020. S. Li et al.: PyTorch distributed: experiences on accelerating data parallel training.
/// VLDB 2020.
DataParallelGraph replicate(const Graph& graph, const Replicate& options, bool divide_batch, std::size_t first_bucket,
                            Checkpoint checkpoint);

}  // namespace trainyard::detail
