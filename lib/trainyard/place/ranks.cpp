#include "trainyard/place/ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>

namespace trainyard {
namespace {

constexpr std::int64_t kLargestScale = std::int64_t{1} << 40;

/// sum / count in 1/scale.
ScaledTime divide(ScaledTime sum, std::int64_t count, std::int64_t scale) {
  return scale % count == 0 ? sum * (scale / count) : sum * scale / count;
}

}  // namespace

MeanCosts::MeanCosts(const Problem& problem) : ops_(problem.op_count()), tensors_(problem.graph().tensor_count()) {
  const auto devices = static_cast<std::int64_t>(problem.device_count());
  const std::int64_t pairs = devices * (devices - 1);
  IdMap<OpId, std::int64_t> able(problem.op_count());
  std::vector<bool> divides(problem.device_count() + 1, false);
  for (const OpId op : problem.ops()) {
    for (const DeviceId device : problem.devices())
      if (problem.can_run(op, device)) {
        ops_[op] += problem.duration(op, device).count;
        ++able[op];
      }
    divides[static_cast<std::size_t>(able[op])] = true;
  }
  if (pairs > 0) scale_ = pairs;
  for (std::int64_t count = 1; count <= devices; ++count)
    if (divides[static_cast<std::size_t>(count)] && scale_ <= kLargestScale) scale_ = std::lcm(scale_, count);
  scale_ = std::min(scale_, kLargestScale);

  for (const OpId op : problem.ops()) ops_[op] = divide(ops_[op], able[op], scale_);
  if (pairs == 0) return;
  for (const TensorId tensor : problem.graph().tensors()) {
    if (problem.graph().consumers(tensor).empty()) continue;
    ScaledTime sum = 0;
    for (const DeviceId from : problem.devices())
      for (const DeviceId to : problem.devices())
        if (from != to) sum += problem.transfer_time(tensor, from, to).count;
    tensors_[tensor] = divide(sum, pairs, scale_);
  }
}

IdMap<OpId, ScaledTime> upward_ranks(const Problem& problem, const MeanCosts& means) {
  const Graph& graph = problem.graph();
  IdMap<OpId, ScaledTime> ranks(problem.op_count());
  const auto& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    ScaledTime longest = 0;
    for (const TensorId tensor : graph.outputs(*at))
      for (const OpId reader : graph.consumers(tensor)) longest = std::max(longest, means.mean(tensor) + ranks[reader]);
    for (const OpId later : graph.before(*at)) longest = std::max(longest, ranks[later]);
    ranks[*at] = means.mean(*at) + longest;
  }
  return ranks;
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
  std::vector<OpId> order = problem.graph().topological_order();
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](OpId op) { return ranks[op]; });
  return order;
}

std::vector<OpId> by_priority_when_free(const Problem& problem, const IdMap<OpId, ScaledTime>& priority) {
  const Graph& graph = problem.graph();
  // The heap holds positions in this list rather than priorities: they are small, and ties are in them.
  std::vector<OpId> sorted(problem.ops().begin(), problem.ops().end());
  std::ranges::stable_sort(sorted, std::ranges::greater{}, [&](OpId op) { return priority[op]; });
  IdMap<OpId, std::uint32_t> position(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) position[sorted[i]] = static_cast<std::uint32_t>(i);

  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free;
  IdMap<OpId, std::size_t> awaited(sorted.size());
  for (const OpId op : problem.ops()) {
    awaited[op] = graph.inputs(op).size() + graph.after(op).size();
    if (awaited[op] == 0) free.push(position[op]);
  }
  const auto release = [&](OpId op) {
    if (--awaited[op] == 0) free.push(position[op]);
  };
  std::vector<OpId> taken;
  taken.reserve(sorted.size());
  while (!free.empty()) {
    taken.push_back(sorted[free.top()]);
    free.pop();
    for (const TensorId tensor : graph.outputs(taken.back())) std::ranges::for_each(graph.consumers(tensor), release);
    std::ranges::for_each(graph.before(taken.back()), release);
  }
  return taken;
}

}  // namespace trainyard
