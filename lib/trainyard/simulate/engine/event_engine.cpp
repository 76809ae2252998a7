#include "trainyard/simulate/engine/event_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "trainyard/core/error.hpp"
#include "trainyard/simulate/model/event_loop.hpp"
#include "trainyard/simulate/model/rule_runner.hpp"

namespace trainyard::detail {
namespace {

TaskTimes run_rule(const Problem& problem, const Schedule& schedule, const PlannedTransfers& transfers,
                   const Nanoseconds* durations) {
  if (schedule.rule) try {
      return schedule.rule->runner->run(problem, schedule.placement, transfers, durations);
    } catch (const NoUrgency& transfer) {
      const std::string what = transfer.tensor.is_none()
                                   ? "a collective"
                                   : fmt::format("tensor '{}'", problem.graph().name(transfer.tensor));
      refuse("not-a-number",
             fmt::format("the urgency that the rule '{}' gives {} is not a number", schedule.rule->name, what),
             "give a number; a higher one goes first");
    }
  const auto run = [&](const auto& rule) {
    return EventLoop{problem, schedule.placement, transfers, durations, rule}.run();
  };
  if (schedule.policy == Policy::strict && schedule.urgent_links)
    return run(UrgentStrict{problem, schedule, durations});
  if (schedule.policy == Policy::strict) return run(Strict{problem, schedule, durations});
  if (schedule.by_priority()) return run(Priority{schedule.priority});
  return run(Fifo{});
}

[[noreturn]] void report_held_back(const Problem& problem, const Schedule& schedule, const TaskTimes& times) {
  // All dependencies of the first op in topological order that never started are met.
  const auto& ops = problem.graph().topological_order();
  const OpId op = *std::ranges::find(ops, kNotYet, [&](OpId id) { return times.ops[id].start; });
  refuse("held-back",
         fmt::format("the rule '{}' never lets op '{}' run on device '{}'", schedule.rule->name,
                     problem.graph().name(op), problem.cluster().device(schedule.placement[op]).name),
         "let this op or another one run when no other event is left", "/policy");
}

}  // namespace

Nanoseconds run_event_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                             bool record, Workspace& workspace) {
  const PlannedTransfers planned(problem.problem, schedule.placement);
  const TaskTimes times = run_rule(problem.problem, schedule, planned, durations);
  if (!times.complete) {
    if (schedule.rule) report_held_back(problem.problem, schedule, times);
    return kDeadlock;
  }
  Nanoseconds last{0};
  for (const Span& span : times.ops) last = std::max(last, span.end);
  if (!record) return last;
  Record& written = workspace.record;
  written.prepare(problem);
  written.ops = times.ops;
  const auto& slots = problem.problem.graph().consumer_rows().starts();
  for (const TensorId tensor : problem.problem.graph().tensors()) {
    std::size_t slot = slots[tensor.index()];
    written.transfer_count[tensor] = static_cast<std::uint32_t>(planned.of(tensor).size());
    for (const TransferId id : planned.of(tensor))
      written.transfers[Slot{slot++}] = {times.transfer_ready[id], times.transfers[id].start, times.transfers[id].end,
                                         planned.to[id]};
  }
  for (const TransferId id : planned.collective_ids())
    written.collectives.push_back(
        {planned.collective(id), times.transfer_ready[id], times.transfers[id].start, times.transfers[id].end});
  return last;
}

}  // namespace trainyard::detail
