#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/frameworks/framework_plan.hpp"

namespace trainyard {

/// Whether the text begins as DeepSpeed's configuration does: one of its keys is among the first of an object.
bool is_deepspeed(std::string_view begin);

/// The plan in a DeepSpeed configuration: "train_batch_size", "train_micro_batch_size_per_gpu",
/// "gradient_accumulation_steps", of which two are enough, and of "zero_optimization" the stage and
/// "reduce_bucket_size", of gradients of 4 bytes. Replicas are what the three leave, else all devices. The notes name
/// what a plan does not have: offloading. Throws InputError with positions: those of every JSON file (read_graph),
/// "deepspeed" ("auto" in place of a number, numbers that are too large, fewer than two of the three, and those that do
/// not divide).
ForeignPlan parse_deepspeed(std::string_view text, const std::string& name, const PlanGround& ground);

/// The plan as a configuration. Lost are stages, which its PipelineModule is given in the program, ranks
/// that share layers or sequences, and recomputation.
SaidPlan deepspeed_of(const ParallelPlan& plan, const PlanGround& ground);

}  // namespace trainyard
