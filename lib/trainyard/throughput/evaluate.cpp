#include "trainyard/throughput/evaluate.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard {

LoadReport evaluate_load(const LoadProblem& problem, const LoadPlacement& placement, const LoadOptions& options) {
  if (placement.size() != problem.op_count())
    refuse("size",
           "the placement has " + std::to_string(placement.size()) + " ops, but the load problem has " +
               std::to_string(problem.op_count()),
           "give a device for each op");
  for (const OpId op : problem.ops())
    if (placement[op].index() >= problem.device_count())
      refuse("not-placed", "op '" + problem.op(op).name + "' is not on a device of the load problem",
             "give a device for each op");
  LoadReport report{.devices = IdMap<DeviceId, DeviceLoad>(problem.device_count())};
  const auto pass_of = [&](DeviceId device, OpId op) -> PassLoad& {
    DeviceLoad& load = report.devices[device];
    return problem.op(op).backward ? load.backward : load.forward;
  };
  for (const OpId op : problem.ops()) {
    const DeviceId device = placement[op];
    const Picoseconds time = problem.time(op, problem.kind_of(device));
    if (time == kNeverLoad)
      ++report.misplaced;
    else
      pass_of(device, op).compute += time;
    report.devices[device].size += problem.op(op).size;
  }
  std::vector<DeviceId> receivers;
  for (const TensorId id : problem.tensors()) {
    const LoadTensor& tensor = problem.tensor(id);
    const DeviceId from = placement[tensor.producer];
    receivers.clear();
    for (const OpId reader : tensor.consumers)
      if (placement[reader] != from) receivers.push_back(placement[reader]);
    if (receivers.empty()) continue;
    std::ranges::sort(receivers);
    receivers.erase(std::unique(receivers.begin(), receivers.end()), receivers.end());
    pass_of(from, tensor.producer).out += problem.cost(id, problem.kind_of(from));
    for (const DeviceId to : receivers) pass_of(to, tensor.producer).in += problem.cost(id, problem.kind_of(to));
  }
  for (std::uint32_t color = 0; color < problem.color_count(); ++color) {
    const auto ops = problem.color_ops(color);
    if (std::ranges::any_of(ops, [&](OpId op) { return placement[op] != placement[ops[0]]; })) ++report.torn;
  }
  Picoseconds forward{}, backward{};
  for (const DeviceId device : problem.devices()) {
    DeviceLoad& load = report.devices[device];
    if (const auto& memory = problem.kind(problem.kind_of(device)).memory)
      load.excess = std::max(Bytes{0}, load.size - *memory);
    report.excess += load.excess;
    if (options.goal == LoadGoal::together) {
      report.value = std::max(report.value, load.load(options.sum));
    } else {
      forward = std::max(forward, load.forward.load(options.sum));
      backward = std::max(backward, load.backward.load(options.sum));
    }
  }
  if (options.goal == LoadGoal::apart) report.value = forward + backward;
  return report;
}

Picoseconds load_color_bound(const LoadProblem& problem) {
  Picoseconds bound{};
  for (std::uint32_t color = 0; color < problem.color_count(); ++color) {
    Picoseconds least = kInfiniteLoad;
    for (const KindId kind : problem.kinds()) {
      if (problem.devices_of(kind).empty()) continue;
      const Picoseconds time = problem.color_time(color, kind);
      if (time != kNeverLoad) least = std::min(least, time);
    }
    if (least != kInfiniteLoad) bound = std::max(bound, least);
  }
  return bound;
}

Picoseconds load_lower_bound(const LoadProblem& problem) {
  // For each placement, sum over devices of load >= sum over ops of the time on their device. With a weight per kind of
  // device, value x (sum over devices of weight) >= sum over ops of min over kinds of (weight x time). All non-negative
  // weights give a bound. Tried here: all 1, one kind alone, and the kinds' speeds relative to the first kind, over the
  // ops that both can run.
  const std::size_t kinds = problem.kind_count();
  std::vector<std::vector<double>> candidates{std::vector<double>(kinds, 1.0)};
  std::vector<double> speeds(kinds, 1.0);
  for (std::size_t k = 0; k < kinds; ++k) {
    std::vector<double> only(kinds, 0.0);  // as if ops cost nothing on the other kinds
    only[k] = 1.0;
    candidates.push_back(only);
    double here = 0, first = 0;
    for (const OpId op : problem.ops()) {
      const Picoseconds a = problem.time(op, KindId{0}), b = problem.time(op, KindId{k});
      if (a == kNeverLoad || b == kNeverLoad) continue;
      first += static_cast<double>(a.count);
      here += static_cast<double>(b.count);
    }
    speeds[k] = here > 0 && first > 0 ? first / here : 1.0;
  }
  candidates.push_back(speeds);
  double best = 0;
  for (const std::vector<double>& weights : candidates) {
    double work = 0, capacity = 0;
    for (const DeviceId device : problem.devices()) capacity += weights[problem.kind_of(device).index()];
    for (const OpId op : problem.ops()) {
      double least = -1;
      for (const KindId kind : problem.kinds()) {
        if (problem.time(op, kind) == kNeverLoad || problem.devices_of(kind).empty()) continue;
        const double share = weights[kind.index()] * static_cast<double>(problem.time(op, kind).count);
        least = least < 0 ? share : std::min(least, share);
      }
      work += std::max(least, 0.0);
    }
    if (capacity > 0) best = std::max(best, work / capacity);
  }
  // Rounded down, with a margin for rounding errors of the sums.
  const Picoseconds bound{static_cast<std::int64_t>(best * (1 - 1e-12))};
  return std::max(bound, load_color_bound(problem));
}

}  // namespace trainyard
