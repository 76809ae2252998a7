#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/plan/pipeline_schedule.hpp"

namespace trainyard {

/// The passes that each rank of a pipeline computes, in order, as in the CSV files of torch.distributed.pipelining. A
/// row is a rank, and a cell is an action: "0F1" is the forward pass of stage 0 on microbatch 1; "B" is a backward
/// pass, "I" its gradients of the stage's inputs alone, "W" those of the weights alone.
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

/// Reads a table (compute_only or compute_comms). Idle cells and communication (SEND_F, UNSHARD, ...) are skipped. A
/// pair "(0F5;3B2)OVERLAP_F_B" becomes two consecutive actions. Throws InputError with line and column, code
/// "task-table", for a cell that is not an action, a number above 2^20, or a table without actions.
TaskTable parse_task_table(std::string_view text, const std::string& name);
/// Writes a compute_only table, which all versions of torch read. Lines end in "\r\n", as Python's csv module writes
/// them.
void write_task_table(const TaskTable& table, std::ostream& out);

/// The table of a schedule over the given number of ranks.
TaskTable task_table(PipelineSchedule schedule, std::size_t ranks, std::size_t microbatches, std::size_t chunks);

/// The schedule of a table.
struct KnownSchedule {
  PipelineSchedule schedule;
  std::size_t chunks, microbatches;
};
/// Finds the schedule with this table. Throws InputError ("task-order") if no schedule has it; the message gives the
/// first action that differs from the nearest schedule, with its line. The caller fills in the file.
KnownSchedule known_schedule(const TaskTable& table);

}  // namespace trainyard
