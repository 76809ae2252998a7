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

/// A `trainyard-split/1` file: what torch.distributed.pipelining is given, in JSON. Its split spec, module paths with
/// "BEGINNING" or "END", as pipeline() takes them; the file with the schedule's table (_load_csv); and the replicas of
/// the pipeline and the samples of a step, which are the caller's mesh and data loader.
struct SplitSpec {
  struct Split {
    std::string module;
    bool end = false;  // SplitPoint.END: the next stage begins after it

    friend bool operator==(const Split&, const Split&) = default;
  };
  std::vector<Split> splits;
  std::string schedule;  // a file beside it
  std::size_t replicas = 1;
  std::optional<std::int64_t> batch = {};

  friend bool operator==(const SplitSpec&, const SplitSpec&) = default;
};

/// Throws InputError with positions: those of every JSON file (read_graph), "split-point", "degree".
SplitSpec parse_split_spec(std::string_view text, const std::string& name);
void write_split_spec(const SplitSpec& spec, std::ostream& out);

/// The plan: as many stages as the splits make, with the table's schedule and microbatches. Throws InputError
/// ("unknown-block" with the nearest name, "task-order", "stages": splits and table differ in their number, "batch").
ForeignPlan plan_of(const SplitSpec& spec, const TaskTable& table, const PlanGround& ground);
/// The plan as a split spec and its table, `table` the file of the latter.
SaidPlan split_spec_of(const ParallelPlan& plan, const PlanGround& ground, const std::string& table);

}  // namespace trainyard
