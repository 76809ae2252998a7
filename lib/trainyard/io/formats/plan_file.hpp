#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// Pipeline schedules that a plan file can name.
inline constexpr std::array kPlanSchedules{
    PipelineSchedule::gpipe,  PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
    PipelineSchedule::zb_h1,  PipelineSchedule::zb_h2,       PipelineSchedule::zb_v,
    PipelineSchedule::v_half, PipelineSchedule::v_min,       PipelineSchedule::dualpipe_v};

/// A `trainyard-plan/1` file: a plan whose stages are given by the names of the blocks of layers with which they begin.
struct PlanFile {
  ParallelPlan plan;  // its cuts are empty
  // Name of the block with which each stage after the first begins.
  std::vector<std::string> begins = {};
  // Samples per step that the plan was made for; recorded only.
  std::optional<std::int64_t> batch = {};
  // Name of the block with which the first stage begins, if the file gives it.
  std::optional<std::string> first = {};

  friend bool operator==(const PlanFile&, const PlanFile&) = default;
};

/// Reads a plan file ("-" is standard input). Throws InputError with positions. The codes are those of every JSON file
/// (read_graph) and these:
///
///     "unknown-schedule"  a schedule not in kPlanSchedules, which the help lists
///     "degree"            a count below 1 or above 2^20, a ZeRO stage above 3, degrees both in the plan and in its
///                         stages, or different degrees for the stages of one device
///     "exchange"          an unknown exchange, or one without "context"
///     "devices"           an unknown device order
///     "recompute"         a value that the key does not take; "bucket_bytes" likewise
///     "stages"            chunks that the schedule does not have, or that do not divide the number of stages
///
/// Equal degrees of all stages become the plan's if their `data` divides the microbatch.
PlanFile read_plan(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
PlanFile parse_plan(std::string_view text, const std::string& name);
/// Writes the plan so that reading it gives an equal one, with these exceptions. Equal degrees of all stages become the
/// plan's. `recompute` is left out if no stage recomputes, and `exchange` if no ranks share a sequence. Each entry of
/// `degrees` keeps only its replicas, tensor ranks and `sequence`.
///
/// Throws InputError for values that the reader would reject, with positions in the text that would have been written,
/// and for plans that a file cannot express: with cuts ("plan"), lists for another number of stages ("stages"), a
/// negative `bucket` ("bucket_bytes"), degrees of the plan and of stages ("degree"), or recomputed stages
/// ("recompute").
void write_plan(const PlanFile& file, std::ostream& out);

/// The plan with its cuts, located by the names of the blocks of layers. Throws InputError with pointers into the file:
/// "unknown-block", with the nearest name; "plan" for stages that are not in the order of their blocks, or a first
/// stage that does not begin with the first block.
ParallelPlan plan_over(const PlanFile& file, std::span<const std::string> blocks);
/// The inverse: a plan file that gives the plan's cuts as names of blocks. A recomputation of more layers than its
/// stage has becomes one of all its layers. Throws InputError: "plan" for cuts that do not ascend or are not among
/// these blocks, "stages" for `recompute` or `degrees` of another number of stages.
PlanFile plan_file(const ParallelPlan& plan, std::span<const std::string> blocks,
                   std::optional<std::int64_t> batch = {});

}  // namespace trainyard
