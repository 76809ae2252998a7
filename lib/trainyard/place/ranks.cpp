#include "trainyard/place/ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

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

std::vector<OpId> by_descending_rank(const Problem& problem, const IdMap<OpId, ScaledTime>& ranks) {
  std::vector<OpId> order = problem.graph().topological_order();
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](OpId op) { return ranks[op]; });
  return order;
}

}  // namespace trainyard
