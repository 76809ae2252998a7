#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/io/formats/plan_file.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// The context of a plan that the files of other programs leave to their launch: the network's blocks, the batch and
/// the devices.
struct PlanGround {
  std::vector<std::string> blocks;         // names of the blocks of layers, in order (plan_blocks)
  std::optional<std::int64_t> batch = {};  // samples per step, if the model gives them
  std::size_t devices = 1;                 // number of available devices
  bool has_scores = true;                  // whether an op computes attention scores (attention_scores)
  bool in_float32 = false;                 // whether ops have signatures, and none of them an array of 16-bit numbers
  bool clips = false;                      // whether the step clips its gradients
};
PlanGround plan_ground(const Problem& problem, std::optional<std::int64_t> batch);

/// A plan read from another program's file, and notes on the parts of that file that a plan does not have.
struct ForeignPlan {
  PlanFile file;
  std::vector<std::string> notes = {};
};

/// A plan in another program's format, and descriptions of the parts that the format cannot express.
struct SaidPlan {
  std::string text;
  std::string table = {};  // the schedule's CSV file for torch.distributed.pipelining
  std::vector<std::string> lost = {};
};

/// Reads a plan from the text of a `trainyard-plan/1` file, a split spec with its schedule, Megatron's arguments or
/// DeepSpeed's JSON; the format is recognized from the text. `path` is the file in messages and the place near which
/// the schedule of a split spec is found. Throws InputError as their readers and plan_over() do, and "recompute" if a
/// stage recomputes more blocks than it has.
ForeignPlan parse_any_plan(std::string_view text, const std::filesystem::path& path, const PlanGround& ground);

namespace detail {

/// Throws InputError ("degrees") if stages have their own degrees, which the named program does not support.
void refuse_stage_degrees(const ParallelPlan& plan, const char* program);

/// Samples per step: those of the file, otherwise the model's. Throws InputError ("plan-batch") if the two differ.
std::optional<std::int64_t> plan_batch(std::optional<std::int64_t> said, const PlanGround& ground);

/// Note that the file asks for 16 bits (`said`; of bfloat16 or float16), while the network computes in float32.
std::string float32_note(std::string_view said, bool bfloat16);

/// Adds a note if the file's `key` asks for gradients of at most this norm, while the step does not clip them.
void note_clipping(std::string_view key, const std::string& norm, const PlanGround& ground,
                   std::vector<std::string>& notes);

/// Trainers give the size of a bucket as a number of gradients, which are summed in 32 bits.
inline constexpr std::int64_t kGradientBytes = 4;
inline std::int64_t gradients_of(Bytes bucket) { return (bucket.count + kGradientBytes - 1) / kGradientBytes; }
inline Bytes bucket_of(std::int64_t gradients) { return Bytes{gradients * kGradientBytes}; }

/// Append descriptions of the parts of a plan that no argument of a program expresses.
void add_lost_ranks(const ParallelPlan& plan, std::vector<std::string>& lost);  // calls the next one too
void add_lost_slices_and_order(const ParallelPlan& plan, std::vector<std::string>& lost);
void add_lost_recompute(const ParallelPlan& plan, std::vector<std::string>& lost);

}  // namespace detail
}  // namespace trainyard
