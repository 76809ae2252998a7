#include "trainyard/problem/schedule.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {
namespace {

/// The error of an op that is not on any of the problem's devices.
Finding misplaced(const Problem& problem, OpId op, DeviceId device) {
  const std::string_view name = problem.graph().name(op);
  if (device.is_none())
    return {"not-placed", fmt::format("op '{}' is not placed on a device", name), "give it a device in \"placement\"",
            "/placement"};
  return {"unknown-device",
          fmt::format("op '{}' is on device number {}, but cluster '{}' has {}", name, device.index(),
                      problem.cluster().name(), counted(problem.device_count(), "device")),
          "use a schedule that was made for this cluster", fmt::format("/placement/{}", pointer_token(name))};
}

class Checker {
 public:
  Checker(const Problem& problem, const Schedule& schedule)
      : problem_(problem), graph_(problem.graph()), schedule_(schedule) {}

  void check() {
    check_placement();
    if (findings_.empty()) check_colocation();
    if (findings_.empty() && graph_.has_collectives()) check_collectives();
    check_priorities();
    if (findings_.empty() && schedule_.policy == Policy::strict) {
      check_orders();
      if (findings_.empty()) check_deadlock();
    }
    if (!findings_.empty()) throw InputError(std::move(findings_));
  }

 private:
  bool full() const { return findings_.size() >= kMostFindings; }
  void report(std::string code, std::string message, std::string help, std::string pointer) {
    if (!full()) findings_.push_back({std::move(code), std::move(message), std::move(help), std::move(pointer), {}});
  }
  std::string_view name(OpId op) const { return graph_.name(op); }
  const std::string& name(DeviceId device) const { return problem_.cluster().device(device).name; }
  std::string at_op(const char* member, OpId op) const {
    return fmt::format("/{}/{}", member, pointer_token(name(op)));
  }

  void check_placement() {
    const Placement& placement = schedule_.placement;
    if (placement.size() != problem_.op_count())
      return report("size",
                    fmt::format("the placement has {}, but graph '{}' has {}", counted(placement.size(), "op"),
                                graph_.name(), problem_.op_count()),
                    "use a schedule that was made for this graph, after its rewrites", "/placement");
    for (const OpId op : problem_.ops()) {
      if (full()) return;
      const DeviceId device = placement[op];
      if (device.index() >= problem_.device_count())
        findings_.push_back(misplaced(problem_, op, device));
      else if (!problem_.can_run(op, device))
        report_cannot_run(op, device);
    }
  }

  void report_cannot_run(OpId op, DeviceId device) {
    std::string able;
    for (const DeviceId other : problem_.devices())
      if (problem_.can_run(op, other) && able.size() < 60) able += (able.empty() ? "" : ", ") + name(other);
    report("no-device", fmt::format("op '{}' is on device '{}', which cannot run it", name(op), name(device)),
           fmt::format("put it on one that can: {}", able), at_op("placement", op));
  }

  void check_colocation() {
    for (std::size_t i = 0; i < problem_.group_count() && !full(); ++i) {
      const auto ops = problem_.group_ops(GroupId{i});
      const OpId first = ops.front();
      for (const OpId op : ops)
        if (schedule_.placement[op] != schedule_.placement[first])
          report(
              "colocation",
              fmt::format("ops '{}' and '{}' of colocation group '{}' are on '{}' and '{}'", name(first), name(op),
                          graph_.colocation_group(op), name(schedule_.placement[first]), name(schedule_.placement[op])),
              "put all ops of the group on one device", at_op("placement", op));
    }
  }

  void check_collectives() {
    for (const OpId collective : problem_.ops()) {
      const CollectiveTask* task = graph_.collective(collective);
      if (full()) return;
      if (!task || task->ranks == 1) continue;
      const std::size_t first = schedule_.placement[graph_.after(collective).front()].index();
      const auto is_rank = [&](std::size_t device) {
        return device >= first && (device - first) % task->stride == 0 && (device - first) / task->stride < task->ranks;
      };
      for (const auto ops : {graph_.after(collective), graph_.before(collective)})
        for (const OpId op : ops)
          if (const DeviceId device = schedule_.placement[op];
              !is_rank(device.index()) || first + (task->ranks - 1) * task->stride >= problem_.device_count())
            return report(
                "collective",
                fmt::format(
                    "op '{}' is on '{}', but the {} ranks of '{}' start at '{}' with a stride of {}, among {} devices",
                    name(op), name(device), task->ranks, name(collective), name(DeviceId{first}), task->stride,
                    problem_.device_count()),
                "put it on the device of a rank", at_op("placement", op));
    }
  }

  void check_priorities() {
    const auto& priority = schedule_.priority;
    if (schedule_.urgent_links && (schedule_.policy != Policy::strict || priority.empty()))
      report("missing-key", "\"links\" by priority need the policy strict and priorities",
             "give a \"priority\" and an \"order\", or leave \"links\" out", "/links");
    if (priority.empty()) return;
    if (priority.size() != problem_.op_count())
      return report("size",
                    fmt::format("there are {} priorities for the {} ops of graph '{}'", priority.size(),
                                problem_.op_count(), graph_.name()),
                    "give a priority to every op, or to none", "/priority");
    for (const OpId op : problem_.ops())
      if (!std::isfinite(priority[op]))
        report("not-a-number", fmt::format("the priority of op '{}' is not a finite number", name(op)),
               "give a finite number; a higher one is more urgent", at_op("priority", op));
  }

  void check_orders() {
    const auto& order = schedule_.order;
    if (order.size() != problem_.device_count())
      return report("order",
                    fmt::format("the policy is strict, but the order lists {} of the {} devices", order.size(),
                                problem_.device_count()),
                    "list the ops of each device in \"order\"", "/order");
    IdMap<OpId, std::uint8_t> seen(problem_.op_count(), 0);
    for (const DeviceId device : problem_.devices())
      for (const OpId op : order[device]) {
        const std::string at = fmt::format("/order/{}", pointer_token(name(device)));
        if (op.index() >= problem_.op_count())
          report("order",
                 fmt::format("the order of device '{}' lists an op that graph '{}' does not have", name(device),
                             graph_.name()),
                 "use a schedule that was made for this graph", at);
        else if (schedule_.placement[op] != device)
          report("order",
                 fmt::format("op '{}' is in the order of device '{}', but is placed on '{}'", name(op), name(device),
                             name(schedule_.placement[op])),
                 "list it in the order of the device that it is placed on", at);
        else if (std::exchange(seen[op], std::uint8_t{1}))
          report("order", fmt::format("op '{}' is twice in the order of device '{}'", name(op), name(device)),
                 "list it once", at);
        if (full()) return;
      }
    for (const OpId op : problem_.ops())
      if (!seen[op] && findings_.empty())
        report("order",
               fmt::format("op '{}' is missing from the order of device '{}'", name(op), name(schedule_.placement[op])),
               "list every op once: policy strict needs all of them",
               fmt::format("/order/{}", pointer_token(name(schedule_.placement[op]))));
  }

  /// Finds for each op the one that precedes it in its device's order. Ops of zero duration are skipped: they use no
  /// resource, so they neither wait for their turn nor delay others.
  void find_previous_in_order() {
    previous_ = IdMap<OpId, OpId>(problem_.op_count(), OpId::none());
    next_ = previous_;
    for (const DeviceId device : problem_.devices()) {
      OpId last = OpId::none();
      for (const OpId op : schedule_.order[device]) {
        if (problem_.duration(op, device) == Nanoseconds{0}) continue;
        previous_[op] = last;
        if (!last.is_none()) next_[last] = op;
        last = op;
      }
    }
  }

  void check_deadlock() {
    find_previous_in_order();
    IdMap<OpId, std::size_t> pending(problem_.op_count());
    std::vector<OpId> free;
    for (const OpId op : problem_.ops()) {
      pending[op] = graph_.inputs(op).size() + graph_.after(op).size() + (previous_[op].is_none() ? 0U : 1U);
      if (pending[op] == 0) free.push_back(op);
    }
    std::size_t run = 0;
    const auto satisfy = [&](OpId op) {
      if (--pending[op] == 0) free.push_back(op);
    };
    while (!free.empty()) {
      const OpId op = free.back();
      free.pop_back();
      ++run;
      for (const TensorId tensor : graph_.outputs(op))
        for (const OpId consumer : graph_.consumers(tensor)) satisfy(consumer);
      for (const OpId later : graph_.before(op)) satisfy(later);
      if (!next_[op].is_none()) satisfy(next_[op]);
    }
    if (run < problem_.op_count()) report_deadlock(pending);
  }

  /// The reason why an op never runs: it waits for another op that never runs.
  struct Wait {
    OpId on;
    std::string why;
  };
  Wait wait_of(OpId op, const IdMap<OpId, std::size_t>& pending) const {
    for (const TensorId tensor : graph_.inputs(op))
      if (const OpId producer = graph_.producer(tensor); pending[producer] != 0)
        return {producer, fmt::format("'{}' needs tensor '{}' of '{}'", name(op), graph_.name(tensor), name(producer))};
    for (const OpId earlier : graph_.after(op))
      if (pending[earlier] != 0) return {earlier, fmt::format("'{}' comes after '{}'", name(op), name(earlier))};
    return {previous_[op], fmt::format("'{}' is behind '{}' in the order of '{}'", name(op), name(previous_[op]),
                                       name(schedule_.placement[op]))};
  }

  void report_deadlock(const IdMap<OpId, std::size_t>& pending) {
    OpId at{0};
    while (pending[at] == 0) at = OpId{at.index() + 1};
    // Every op that never runs waits for another one, so the walk must return to an op that it visited.
    IdMap<OpId, std::uint8_t> visited(problem_.op_count(), 0);
    while (!std::exchange(visited[at], std::uint8_t{1})) at = wait_of(at, pending).on;
    constexpr int kMostShown = 10;
    std::string cycle;
    int steps = 0;
    DeviceId device = DeviceId::none();
    for (OpId op = at; steps == 0 || op != at; ++steps) {
      const Wait wait = wait_of(op, pending);
      if (steps < kMostShown) cycle += (steps == 0 ? "" : ", ") + wait.why;
      if (device.is_none() && wait.on == previous_[op]) device = schedule_.placement[op];
      op = wait.on;
    }
    if (steps > kMostShown) cycle += fmt::format(", and {} more", steps - kMostShown);
    report("deadlock", fmt::format("the strict order can never run: {}", cycle),
           "change the order so that no op stands before one that it needs",
           device.is_none() ? "/order" : fmt::format("/order/{}", pointer_token(name(device))));
  }

  const Problem& problem_;
  const Graph& graph_;
  const Schedule& schedule_;
  IdMap<OpId, OpId> previous_, next_;
  std::vector<Finding> findings_;
};

[[noreturn]] void refuse_size(const Problem& problem, const char* what, std::size_t is, std::size_t should,
                              const char* of, const char* help) {
  refuse("size",
         fmt::format("the {} has {}, but the problem of graph '{}' has {}", what, counted(is, of),
                     problem.graph().name(), should),
         fmt::format("make it for this problem, {}", help));
}

}  // namespace

void check_rule(const Schedule& schedule) {
  if (schedule.rule && !schedule.rule->runner)
    refuse("own-rule", fmt::format("the rule '{}' has no function that runs it", schedule.rule->name),
           "make the rule with own_rule(name, rule)");
}

void check_sizes(const Problem& problem, const Schedule& schedule) {
  check_rule(schedule);
  const auto check = [&](const char* what, std::size_t is, std::size_t should, const char* of) {
    if (is != should)
      refuse_size(problem, what, is, should, of, "after its rewrites; check_schedule() checks all of it");
  };
  check("schedule's placement", schedule.placement.size(), problem.op_count(), "op");
  if (schedule.links_by_priority()) check("schedule's priority", schedule.priority.size(), problem.op_count(), "op");
  if (schedule.policy == Policy::strict)
    check("schedule's order", schedule.order.size(), problem.device_count(), "device");
}

void check_sizes(const Problem& problem, const Timeline& timeline) {
  const auto check = [&](const char* what, std::size_t is, std::size_t should, const char* of) {
    if (is != should) refuse_size(problem, what, is, should, of, "after its rewrites, as simulate() does");
  };
  check("timeline", timeline.ops.size(), problem.op_count(), "op");
  check("timeline", timeline.devices.size(), problem.device_count(), "device");
  check("timeline", timeline.channels.size(), problem.cluster().channel_count(), "channel");
}

void check_sizes(const Problem& problem, const Placement& placement, const Timeline& timeline) {
  check_placement(problem, placement);
  check_sizes(problem, timeline);
}

void check_transfers(const Problem& problem, const Timeline& timeline) {
  const auto check_tensor = [&](TensorId tensor) {
    if (tensor.index() >= problem.graph().tensor_count())
      refuse("unknown-tensor",
             fmt::format("the timeline has a tensor that graph '{}' does not have", problem.graph().name()),
             "give the timeline of this problem, after its rewrites");
  };
  const auto check_device = [&](DeviceId device) {
    if (device.index() >= problem.device_count())
      refuse("unknown-device",
             fmt::format("a transfer of the timeline has a device that cluster '{}' does not have",
                         problem.cluster().name()),
             "give the timeline of this problem");
  };
  for (const Transfer& transfer : timeline.transfers) {
    check_tensor(transfer.tensor);
    check_device(transfer.from);
    check_device(transfer.to);
    std::ranges::for_each(transfer.also_to, check_device);
  }
}

void check_placement(const Problem& problem, const Placement& placement) {
  if (placement.size() != problem.op_count())
    refuse_size(problem, "placement", placement.size(), problem.op_count(), "op", "after its rewrites");
  for (const OpId op : problem.ops())
    if (placement[op].index() >= problem.device_count()) throw InputError(misplaced(problem, op, placement[op]));
}

void check_schedule(const Problem& problem, const Schedule& schedule) {
  if (!schedule.rewrites.empty() && schedule.rewrites != problem.rewrites())
    refuse("other-rewrites", "the schedule is for a graph with rewrites that the problem's graph does not have",
           "give the problem after the rewrites, from scheduled_problem()", "/splits");
  check_rule(schedule);
  Checker{problem, schedule}.check();
}

void refuse_own_rule(const Schedule& schedule, std::string_view what) {
  if (schedule.rule)
    refuse("own-rule",
           fmt::format("{} supports the policies fifo, priority and strict, but not the rule '{}'", what,
                       schedule.rule->name),
           "simulate it, and use the order in which its ops start as a strict order (in_started_order)", "/policy");
}

}  // namespace trainyard
