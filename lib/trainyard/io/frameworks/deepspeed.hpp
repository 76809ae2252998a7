#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/frameworks/framework_plan.hpp"

namespace trainyard {

/// Whether the text looks like a DeepSpeed configuration: a JSON object in which one of its keys occurs.
bool is_deepspeed(std::string_view begin);

/// Reads the plan from a DeepSpeed configuration: "train_batch_size", "train_micro_batch_size_per_gpu" and
/// "gradient_accumulation_steps", of which two suffice, and from "zero_optimization" the stage and "reduce_bucket_size"
/// (in gradients of 4 bytes). If all three are given, the number of replicas follows from them; otherwise all devices
/// are replicas. The notes list what a plan does not have (offloading, shards within groups, quantized messages), and
/// 16 bits if the network computes in float32.
///
/// Throws InputError with positions. The codes are those of every JSON file (read_graph) and "deepspeed": "auto"
/// instead of a number, a number out of range, fewer than two of the three numbers, or numbers whose product does not
/// fit.
ForeignPlan parse_deepspeed(std::string_view text, const std::string& name, const PlanGround& ground);

/// The plan as a DeepSpeed configuration. It cannot express stages (the program passes them to PipelineModule), ranks
/// that share layers or sequences, and recomputation.
SaidPlan deepspeed_of(const ParallelPlan& plan, const PlanGround& ground);

}  // namespace trainyard
