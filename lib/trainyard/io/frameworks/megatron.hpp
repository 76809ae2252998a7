#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/frameworks/framework_plan.hpp"

namespace trainyard {

/// Reads a plan from Megatron-LM's arguments in shell syntax: words, quotes, comments and continued lines. Arguments
/// that do not concern the plan are ignored. The decoder layers are the network's only run of numbered blocks ("h.0",
/// "h.1", ...). Blocks before them count as the embedding, blocks after them as the loss.
///
///     stages         --pipeline-model-parallel-size, with --pipeline-model-parallel-layout; without a layout, layers
///                    are divided evenly (--num-layers-per-virtual-pipeline-stage,
///                    --num-virtual-stages-per-pipeline-rank); the chunks of the first and the last rank share
///                    --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers. The embedding and
///                    the loss count as layers with --account-for-embedding-in-pipeline-split and
///                    --account-for-loss-in-pipeline-split
///     schedule       1f1b; interleaved if a rank has several stages
///     replicas       processes divided by the tensor, context and pipeline degrees; processes are --nnodes times
///                    --nproc-per-node of torchrun, a multiple of the degrees; or as many replicas as the devices hold
///     context        --context-parallel-size; --cp-comm-type a2a or all_gather, otherwise a ring
///     microbatch     --micro-batch-size; the batch is --global-batch-size
///     ZeRO           1 with --use-distributed-optimizer; 3 with --use-torch-fsdp2; with --use-megatron-fsdp (or
///                    --use-custom-fsdp) that of --data-parallel-sharding-strategy
///     buckets        --ddp-bucket-size, in gradients of 4 bytes
///     recompute      --recompute-granularity full (StageRecompute::full), for all stages; with --recompute-method
///                    block only their first --recompute-num-layers layers; selective, or --recompute-activations,
///                    recomputes attention if --recompute-modules has core_attn
///
/// The notes list arguments that change the step but have no place in a plan: offloading, FP8, tensor ranks of experts,
/// and 16 bits if the network computes in float32.
///
/// Throws InputError with line and column: "megatron" (an invalid number or word, an open quote, a missing or
/// contradictory argument, another number of layers than the network's), "layout"; and "megatron-network" if the
/// network is not such a chain.
ForeignPlan parse_megatron(std::string_view text, const std::string& name, const PlanGround& ground);

/// The plan as a command for torchrun. ZeRO 2 and 3 are Megatron's FSDP. Cuts within the embedding or the loss move to
/// its border. Other schedules, folded stages, and recomputation that differs between stages are lost. Throws
/// InputError ("megatron-network"; "layout" if a stage between the first and the last has no decoder layer).
SaidPlan megatron_of(const ParallelPlan& plan, const PlanGround& ground);

}  // namespace trainyard
