#include "trainyard/place/exact/tasks.hpp"

#include <algorithm>
#include <limits>

namespace trainyard::detail {
namespace {

constexpr std::uint32_t kNoTask = std::numeric_limits<std::uint32_t>::max();

void link(std::vector<Tasks::Task>& tasks, std::uint32_t from, std::uint32_t to) {
  tasks[from].after.push_back(to);
  ++tasks[to].waits_for;
}

}  // namespace

void Tasks::build(const ExactModel& model, const std::vector<std::uint32_t>& device,
                  const std::vector<std::int64_t>& tails) {
  ops = model.ops;
  tasks.assign(ops, {});
  for (std::uint32_t op = 0; op < ops; ++op) {
    tasks[op].duration = model.time(op, device[op]);
    if (tasks[op].duration > 0) tasks[op].resources = {device[op]};
    tasks[op].release = model.arrives(op, device[op]);
    tasks[op].beyond = model.follows(op, device[op]);
    tasks[op].tail = std::max(tails[op], tasks[op].beyond);
  }
  std::vector<std::uint32_t> sent(model.devices);  // transfer task of the current tensor, by destination
  for (std::uint32_t op = 0; op < ops; ++op) {
    std::uint32_t tensor = kNoTask, broadcast = kNoTask;
    for (const auto& [of, reader] : model.outputs[op]) {
      if (of == ExactModel::kNoTensor || device[reader] == device[op]) {
        link(tasks, op, reader);
        continue;
      }
      const std::uint32_t to = device[reader];
      if (of != tensor) {
        std::ranges::fill(sent, kNoTask);
        tensor = of;
        broadcast = kNoTask;
      }
      const auto& route = model.route(device[op], to);
      std::uint32_t& transfer = route.broadcast ? broadcast : sent[to];
      if (transfer == kNoTask) {
        transfer = static_cast<std::uint32_t>(tasks.size());
        tasks.emplace_back().duration = model.transfer(of, device[op], to);
        if (tasks.back().duration > 0) tasks.back().resources = route.resources;
        link(tasks, op, transfer);
      }
      link(tasks, transfer, reader);
    }
  }
  order.clear();
  std::vector<std::uint32_t> waits;
  for (std::uint32_t t = 0; t < tasks.size(); ++t) {
    waits.push_back(tasks[t].waits_for);
    if (waits[t] == 0) order.push_back(t);
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const std::uint32_t next : tasks[order[i]].after)
      if (--waits[next] == 0) order.push_back(next);
  for (std::size_t i = order.size(); i-- > 0;) {
    Task& task = tasks[order[i]];
    for (const std::uint32_t next : task.after)
      task.tail = std::max(task.tail, tasks[next].duration + tasks[next].tail);
  }
}

}  // namespace trainyard::detail
