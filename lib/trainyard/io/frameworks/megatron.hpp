#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/frameworks/framework_plan.hpp"

namespace trainyard {

/// The plan in Megatron-LM's arguments, as a shell has them: words, quotes, comments and continued lines; those that
/// say nothing of the plan are passed over. Decoder layers are the network's one run of numbered blocks ("h.0", "h.1",
/// ...); what is before them is the embedding, what is behind them the loss.
///
///     stages         --pipeline-model-parallel-size, and --pipeline-model-parallel-layout; else layers divided evenly
///                    (--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank,
///                    --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers)
///     order          1f1b, interleaved where a rank has several stages
///     replicas       processes (--nnodes times --nproc-per-node of torchrun, else all devices) that tensor,
///                    context and pipeline leave
///     context        --context-parallel-size; --cp-comm-type a2a or all_gather, else a ring
///     microbatch     --micro-batch-size; samples --global-batch-size
///     ZeRO 1         --use-distributed-optimizer
///     buckets        --ddp-bucket-size, of gradients of 4 bytes
///     recompute      --recompute-granularity full, of all stages, with --recompute-method block of their first
///                    --recompute-num-layers layers; selective, of attention
///
/// Throws InputError with line and column: "megatron" (a number or word that is none, an open quote, what is missing or
/// contradicts, another number of layers than the network's), "layout"; "megatron-network" where the network is no such
/// chain.
ForeignPlan parse_megatron(std::string_view text, const std::string& name, const PlanGround& ground);

/// The plan as a command for torchrun. Cuts within what is embedding or loss go to its border. Lost are other orders,
/// folded stages, ZeRO beyond 1, and recomputation of some stages only. Throws InputError ("megatron-network").
SaidPlan megatron_of(const ParallelPlan& plan, const PlanGround& ground);

}  // namespace trainyard
