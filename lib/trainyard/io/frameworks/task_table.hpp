#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/plan/pipeline_schedule.hpp"

namespace trainyard {

/// What each rank of a pipeline computes, in its order, as the CSV of torch.distributed.pipelining has it: a row a
/// rank, a cell an action, "0F1" the forward pass of stage 0 on microbatch 1, "B" backward, "I" the gradients of the
/// stage's inputs alone, "W" those of its weights.
struct TaskTable {
  struct Action {
    std::size_t stage;
    Pass pass;
    std::size_t microbatch;

    friend bool operator==(const Action&, const Action&) = default;
  };
  std::vector<std::vector<Action>> ranks;

  friend bool operator==(const TaskTable&, const TaskTable&) = default;
};

/// Reads a table (compute_only or compute_comms): idle cells and what moves data (SEND_F, UNSHARD, ...) are passed
/// over, a pair "(0F5;3B2)OVERLAP_F_B" is one after the other. Throws InputError with line and column: "task-table" (a
/// cell that is no action, a number beyond 2^20, no row with an action).
TaskTable parse_task_table(std::string_view text, const std::string& name);
/// compute_only, which all versions of torch read; lines end in "\r\n", as Python's csv writes them.
void write_task_table(const TaskTable& table, std::ostream& out);

/// The table of a schedule over so many ranks.
TaskTable task_table(PipelineSchedule schedule, std::size_t ranks, std::size_t microbatches, std::size_t chunks);

/// The schedule whose table this is.
struct KnownSchedule {
  PipelineSchedule schedule;
  std::size_t chunks, microbatches;
};
/// Throws InputError ("task-order") where it is that of none, with the first action at which the nearest differs,
/// and its line; the table's file is the caller's.
KnownSchedule known_schedule(const TaskTable& table);

}  // namespace trainyard
