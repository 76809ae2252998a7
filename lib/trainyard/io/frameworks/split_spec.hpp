#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/io/frameworks/framework_plan.hpp"
#include "trainyard/io/frameworks/task_table.hpp"

namespace trainyard {

/// A `trainyard-split/1` file: the inputs of torch.distributed.pipelining in JSON. It has the split spec of pipeline(),
/// module paths with "BEGINNING" or "END"; the file of the schedule's table (_load_csv); and the replicas of the
/// pipeline and the samples of a step, which a torch program sets by its mesh and data loader.
struct SplitSpec {
  struct Split {
    std::string module;
    bool end = false;  // SplitPoint.END: the next stage begins after the module

    friend bool operator==(const Split&, const Split&) = default;
  };
  std::vector<Split> splits;
  std::string schedule;  // name of the table's file in the same folder
  std::size_t replicas = 1;
  std::optional<std::int64_t> batch = {};

  friend bool operator==(const SplitSpec&, const SplitSpec&) = default;
};

/// Reads a split spec. Throws InputError with positions: the codes of every JSON file (read_graph), "split-point",
/// "degree".
SplitSpec parse_split_spec(std::string_view text, const std::string& name);
void write_split_spec(const SplitSpec& spec, std::ostream& out);

/// The plan with the stages of the splits, and the schedule and microbatches of the table. Throws InputError:
/// "unknown-block" with the nearest name, "task-order", "stages" if the splits leave a stage without layers or splits
/// and table differ in the number of stages, "batch" if the samples are unknown or not divisible.
ForeignPlan plan_of(const SplitSpec& spec, const TaskTable& table, const PlanGround& ground);
/// The plan as a split spec and a table. `table` is the table's file name.
SaidPlan split_spec_of(const ParallelPlan& plan, const PlanGround& ground, const std::string& table);

}  // namespace trainyard
