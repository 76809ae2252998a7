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

/// Pipeline schedules that a plan names.
inline constexpr std::array kPlanSchedules{
    PipelineSchedule::gpipe,  PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
    PipelineSchedule::zb_h1,  PipelineSchedule::zb_h2,       PipelineSchedule::zb_v,
    PipelineSchedule::v_half, PipelineSchedule::v_min,       PipelineSchedule::dualpipe_v};

/// A `trainyard-plan/1` file: a plan whose stages begin with blocks of layers, by name.
struct PlanFile {
  ParallelPlan plan;                       // without cuts
  std::vector<std::string> begins = {};    // the blocks with which its stages after the first begin
  std::optional<std::int64_t> batch = {};  // samples of a step that it was made for: recorded
  std::optional<std::string> first = {};   // the block with which the first stage begins, where the file says it

  friend bool operator==(const PlanFile&, const PlanFile&) = default;
};

/// Throws InputError with positions: those of every JSON file (read_graph), "unknown-schedule" with the words, "degree"
/// for a count below 1 or beyond 2^20, "exchange" where no ranks share a sequence, "devices" for an order that is none,
/// "stages" for chunks that the schedule does not have or that do not divide the stages. Degrees of stages that are all
/// the same are those of the plan.
PlanFile read_plan(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
PlanFile parse_plan(std::string_view text, const std::string& name);
/// Writes the plan so that reading it gives an equal one, but that degrees of stages that are all the same become those
/// of the plan, `recompute` of no stage at all and `exchange` of no ranks are left out, and of `degrees` the ranks and
/// `sequence` are kept alone. Throws InputError for what the reader would not take, with positions in what would have
/// been written, and for a plan with cuts ("plan"), lists of other stages ("stages"), `bucket` below 0.
void write_plan(const PlanFile& file, std::ostream& out);

/// The plan, with cuts where stages begin among these blocks. Throws InputError with pointers into the file:
/// "unknown-block" with the nearest name, "plan" for stages that do not begin one behind the other, the first with the
/// first block.
ParallelPlan plan_over(const PlanFile& file, std::span<const std::string> blocks);
/// The inverse: the plan's cuts as names of blocks. Throws InputError: "plan" for cuts that are not of these blocks,
/// one behind the other, "stages" for `recompute` or `degrees` of other stages.
PlanFile plan_file(const ParallelPlan& plan, std::span<const std::string> blocks,
                   std::optional<std::int64_t> batch = {});

}  // namespace trainyard
