#include "trainyard/place/parallel/pipeline_order.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

class TaskRun {
 public:
  TaskRun(const Problem& problem, const Placement& placement, const PipelineWork& work)
      : problem_(problem), placement_(placement), work_(work) {
    for (std::size_t i = 0; i < problem.op_count(); ++i) position_[graph_.topological_order()[i]] = i;
    used_.assign(placement.begin(), placement.end());
    std::ranges::sort(used_);
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    for (const DeviceId device : used_) devices_[device].left.assign(work.tasks + 1, 0);
    for (const OpId op : problem.ops()) {
      pending_[op] = graph_.inputs(op).size() + graph_.after(op).size();
      if (at_home(op) && takes_time(op)) ++devices_[placement[op]].left[work.task[op]];
    }
  }

  Schedule run() {
    schedule_.order.assign(problem_.device_count(), {});
    for (const OpId op : problem_.ops())
      if (pending_[op] == 0) release(op);
    for (std::size_t ended = 0; ended < problem_.op_count();) {
      while (!events_.empty() && std::get<0>(events_.top()) == now_) {
        const auto [time, kind, number] = events_.top();
        events_.pop();
        if (kind == Event::ready)
          become_ready(OpId{number});
        else
          end(OpId{number}), ++ended;
      }
      dispatch(false);
      if (events_.empty()) dispatch(true);  // tasks wait for each other in a cycle
      if (!events_.empty()) now_ = std::get<0>(events_.top());
    }
    schedule_.placement = placement_;
    schedule_.policy = Policy::strict;
    return std::move(schedule_);
  }

 private:
  enum class Event : std::uint8_t { end, ready };
  using Queued = std::tuple<Nanoseconds, Event, std::size_t>;
  using Waiting = std::set<std::pair<std::size_t, std::size_t>>;  // task, topological position
  struct Device {
    OpId running;
    std::size_t task = 0;
    std::vector<std::size_t> left;  // by task: ops that have not started
    Waiting own, foreign;
  };

  bool at_home(OpId op) const { return work_.home[op] == placement_[op]; }
  bool takes_time(OpId op) const { return problem_.duration(op, placement_[op]) > Nanoseconds{0}; }

  void release(OpId op) { events_.emplace(ready_[op], Event::ready, op.index()); }

  void become_ready(OpId op) {
    Device& device = devices_[placement_[op]];
    if (!takes_time(op)) {
      schedule_.order[placement_[op]].push_back(op);
      events_.emplace(now_, Event::end, op.index());
      return;
    }
    if (at_home(op))
      device.own.emplace(work_.task[op], position_[op]);
    else
      device.foreign.emplace(0, position_[op]);
  }

  void dispatch(bool any) {
    for (const DeviceId id : used_) {
      Device& device = devices_[id];
      if (!device.running.is_none()) continue;
      while (device.task < work_.tasks && device.left[device.task] == 0) ++device.task;
      Waiting* from = &device.foreign;
      if (from->empty()) {
        from = &device.own;
        if (from->empty() || (!any && from->begin()->first > device.task)) continue;
      }
      const auto [task, position] = *from->begin();
      from->erase(from->begin());
      const OpId op = graph_.topological_order()[position];
      if (from == &device.own) --device.left[task];
      device.running = op;
      schedule_.order[id].push_back(op);
      events_.emplace(now_ + problem_.duration(op, id), Event::end, op.index());
      if (any) return;  // one op is enough to go on
    }
  }

  void end(OpId op) {
    const DeviceId from = placement_[op];
    if (devices_[from].running == op) devices_[from].running = OpId::none();
    const auto satisfy = [&](OpId later, Nanoseconds at) {
      ready_[later] = std::max(ready_[later], at);
      if (--pending_[later] == 0) release(later);
    };
    for (const TensorId tensor : graph_.outputs(op))
      for (const OpId reader : graph_.consumers(tensor)) {
        const DeviceId to = placement_[reader];
        satisfy(reader, now_ + (from == to ? Nanoseconds{0} : problem_.transfer_time(tensor, from, to)));
      }
    for (const OpId later : graph_.before(op)) satisfy(later, now_);
  }

  const Problem& problem_;
  const Graph& graph_ = problem_.graph();
  const Placement& placement_;
  const PipelineWork& work_;
  IdMap<OpId, std::size_t> position_{problem_.op_count()}, pending_{problem_.op_count()};
  IdMap<OpId, Nanoseconds> ready_{problem_.op_count()};
  IdMap<DeviceId, Device> devices_{problem_.device_count()};
  std::vector<DeviceId> used_;  // devices that have ops, ascending
  std::priority_queue<Queued, std::vector<Queued>, std::greater<>> events_;
  Nanoseconds now_{0};
  Schedule schedule_;
};

}  // namespace

Schedule in_task_order(const Problem& problem, const Placement& placement, const PipelineWork& work) {
  return TaskRun{problem, placement, work}.run();
}

}  // namespace trainyard
