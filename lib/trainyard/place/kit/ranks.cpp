#include "trainyard/place/kit/ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/graph/topological_order.hpp"
#include "trainyard/place/kit/successors.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kLargestScale = std::int64_t{1} << 40;

/// sum / count, in units of 1/scale.
ScaledTime divide(ScaledTime sum, std::int64_t count, std::int64_t scale) {
  return scale % count == 0 ? sum * (scale / count) : sum * scale / count;
}

IdMap<OpId, ScaledTime> longest_to_exit(const Problem& problem, const auto& weight, const auto& crossing) {
  const Graph& graph = problem.graph();
  IdMap<OpId, ScaledTime> longest(problem.op_count());
  const auto& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    ScaledTime after = 0;
    for (const TensorId tensor : graph.outputs(*at))
      for (const OpId reader : graph.consumers(tensor)) after = std::max(after, crossing(tensor) + longest[reader]);
    for (const OpId later : graph.before(*at)) after = std::max(after, longest[later]);
    longest[*at] = weight(*at) + after;
  }
  return longest;
}

}  // namespace

MeanCosts::MeanCosts(const Problem& problem) : ops_(problem.op_count()), tensors_(problem.graph().tensor_count()) {
  const auto devices = static_cast<std::int64_t>(problem.device_count());
  const std::int64_t pairs = devices * (devices - 1);
  // Devices of one class have the same durations, and routes of one rate the same time for a tensor's bytes.
  std::vector<std::int64_t> alike(problem.column_count(), 0);
  std::vector<DeviceId> one_of(problem.column_count());
  for (const DeviceId device : problem.devices()) {
    ++alike[problem.column(device)];
    one_of[problem.column(device)] = device;
  }
  IdMap<OpId, std::int64_t> able(problem.op_count());
  std::vector<bool> divides(problem.device_count() + 1, false);
  for (const OpId op : problem.ops()) {
    for (std::size_t column = 0; column < alike.size(); ++column)
      if (problem.can_run(op, one_of[column])) {
        ops_[op] += ScaledTime{problem.duration(op, one_of[column]).count} * alike[column];
        able[op] += alike[column];
      }
    divides[static_cast<std::size_t>(able[op])] = true;
  }
  if (pairs > 0) scale_ = pairs;
  for (std::int64_t count = 1; count <= devices; ++count)
    if (divides[static_cast<std::size_t>(count)] && scale_ <= kLargestScale) scale_ = std::lcm(scale_, count);
  scale_ = std::min(scale_, kLargestScale);

  for (const OpId op : problem.ops()) ops_[op] = divide(ops_[op], able[op], scale_);
  if (pairs == 0) return;
  ScaledTime latencies = 0;
  std::vector<std::int64_t> of_rate(problem.rate_count(), 0);
  const auto sizes = problem.cluster().route_class_sizes();
  for (std::uint32_t routes = 0; routes < sizes.size(); ++routes) {
    const auto count = static_cast<std::int64_t>(sizes[routes]);
    latencies += ScaledTime{problem.transfer_latency(routes).count} * count;
    of_rate[problem.rate(routes)] += count;
  }
  for (const TensorId tensor : problem.graph().tensors()) {
    if (problem.graph().consumers(tensor).empty()) continue;
    ScaledTime sum = latencies;
    for (std::size_t rate = 0; rate < of_rate.size(); ++rate)
      sum += ScaledTime{problem.byte_times()[tensor.index() * of_rate.size() + rate].count} * of_rate[rate];
    tensors_[tensor] = divide(sum, pairs, scale_);
  }
}

IdMap<OpId, ScaledTime> upward_ranks(const Problem& problem, const MeanCosts& means) {
  return longest_to_exit(
      problem, [&](OpId op) { return means.mean(op); }, [&](TensorId tensor) { return means.mean(tensor); });
}

IdMap<OpId, ScaledTime> upward_ranks(const Problem& problem, const MeanCosts& means,
                                     const IdMap<OpId, ScaledTime>& weights) {
  check_entries("the weights", weights.size(), problem.op_count(), "ops");
  return longest_to_exit(
      problem, [&](OpId op) { return weights[op]; }, [&](TensorId tensor) { return means.mean(tensor); });
}

IdMap<OpId, ScaledTime> static_levels(const Problem& problem, const MeanCosts& means) {
  return longest_to_exit(
      problem, [&](OpId op) { return means.mean(op); }, [](TensorId) { return ScaledTime{0}; });
}

IdMap<OpId, ScaledTime> downward_ranks(const Problem& problem, const MeanCosts& means) {
  const Graph& graph = problem.graph();
  IdMap<OpId, ScaledTime> ranks(problem.op_count());
  for (const OpId op : graph.topological_order()) {
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId producer = graph.producer(tensor);
      ranks[op] = std::max(ranks[op], ranks[producer] + means.mean(producer) + means.mean(tensor));
    }
    for (const OpId earlier : graph.after(op)) ranks[op] = std::max(ranks[op], ranks[earlier] + means.mean(earlier));
  }
  return ranks;
}

std::vector<OpId> by_descending_rank(const Problem& problem, const IdMap<OpId, ScaledTime>& ranks) {
  check_entries("the ranks", ranks.size(), problem.op_count(), "ops");
  std::vector<OpId> order = problem.graph().topological_order();
  sort_by_descending(order, [&](OpId op) { return ranks[op]; });
  return order;
}

PriorityOrder priority_order(const IdMap<OpId, ScaledTime>& priority) {
  PriorityOrder order{.ops = {priority.ids().begin(), priority.ids().end()},
                      .position = IdMap<OpId, std::uint32_t>(priority.size())};
  sort_by_descending(order.ops, [&](OpId op) { return priority[op]; });
  for (std::size_t i = 0; i < order.ops.size(); ++i) order.position[order.ops[i]] = static_cast<std::uint32_t>(i);
  return order;
}

std::vector<OpId> by_priority_when_free(const Problem& problem, const IdMap<OpId, ScaledTime>& priority) {
  check_entries("the priority", priority.size(), problem.op_count(), "ops");
  return topological_order<OpId>(problem.op_count(), successors_in(problem.graph()), [&](OpId a, OpId b) {
    return priority[a] != priority[b] ? priority[a] > priority[b] : a < b;
  });
}

IdMap<OpId, double> rank_priorities(const Problem& problem) {
  IdMap<OpId, double> priority(problem.op_count(), 0);
  auto urgency = static_cast<double>(problem.op_count());
  for (const OpId op : by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem}))) priority[op] = urgency--;
  return priority;
}

}  // namespace trainyard
