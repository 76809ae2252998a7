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

/// The network and the machine that a plan is for, which the files of other programs leave to their launch.
struct PlanGround {
  std::vector<std::string> blocks;         // of layers, in order (plan_blocks)
  std::optional<std::int64_t> batch = {};  // samples of a step, where the model says
  std::size_t devices = 1;                 // at hand
  bool has_scores = true;                  // of attention (attention_scores)
};
PlanGround plan_ground(const Problem& problem, std::optional<std::int64_t> batch);

/// A plan out of another program's file, and what of that file no plan says.
struct ForeignPlan {
  PlanFile file;
  std::vector<std::string> notes = {};
};

/// A plan in another program's words, and what these cannot say of it.
struct SaidPlan {
  std::string text;
  std::string table = {};  // torch.distributed.pipelining: its schedule (CSV)
  std::vector<std::string> lost = {};
};

/// A plan from the text of a `trainyard-plan/1` file, a split spec with its schedule, Megatron's arguments, or
/// DeepSpeed's JSON, by how it begins; `path` is the file in messages, and where the schedule of a split spec is found.
/// Throws InputError as their readers and plan_over() do, and "recompute" where a plan has a stage compute more blocks
/// again than it has.
ForeignPlan parse_any_plan(std::string_view text, const std::filesystem::path& path, const PlanGround& ground);

namespace detail {

/// Throws InputError ("degrees") where stages have degrees of their own, which the program of this name does not have.
void refuse_stage_degrees(const ParallelPlan& plan, const char* program);

/// Samples of a step: of the file, which may not contradict the model. Throws InputError ("plan-batch").
std::optional<std::int64_t> plan_batch(std::optional<std::int64_t> said, const PlanGround& ground);

/// Trainers count the gradients of a bucket, which are summed in 32 bits.
inline constexpr std::int64_t kGradientBytes = 4;
inline std::int64_t gradients_of(Bytes bucket) { return (bucket.count + kGradientBytes - 1) / kGradientBytes; }
inline Bytes bucket_of(std::int64_t gradients) { return Bytes{gradients * kGradientBytes}; }

/// What is common to all: the plan's pieces that none of a program's words stand for.
void add_lost_ranks(const ParallelPlan& plan, std::vector<std::string>& lost);  // and the next
void add_lost_slices_and_order(const ParallelPlan& plan, std::vector<std::string>& lost);
void add_lost_recompute(const ParallelPlan& plan, std::vector<std::string>& lost);

}  // namespace detail
}  // namespace trainyard
