#include "trainyard/place/celeritas/sequential_partition.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace trainyard {

std::vector<std::size_t> sequential_partition(const Graph& graph, const std::vector<OpId>& order,
                                              const IdMap<OpId, RunWeight>& weights, const RunWeight& limit,
                                              Checkpoint checkpoint) {
  const std::size_t count = order.size();
  struct Best {
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
    std::size_t runs = 0, from = 0;
  };
  std::vector<Best> best(count + 1);
  best[0].bytes = 0;
  std::vector<std::int64_t> crossing(count, 0), added(count, 0);  // by start of the run
  IdMap<TensorId, std::size_t> fresh(graph.tensor_count(), 0);    // first start of a run that has not read it yet
  RunWeight weight{};
  std::size_t first = 0;  // start of the longest run that ends here
  for (std::size_t at = 0; at < count; ++at) {
    const OpId op = order[at];
    weight.time += weights[op].time;
    weight.bytes += weights[op].bytes;
    for (; first < at && (weight.time > limit.time || weight.bytes > limit.bytes); ++first) {
      weight.time -= weights[order[first]].time;
      weight.bytes -= weights[order[first]].bytes;
    }
    for (const TensorId tensor : graph.inputs(op)) {
      added[std::max(first, fresh[tensor])] += graph.bytes(tensor).count;
      fresh[tensor] = at + 1;
    }
    for (const TensorId tensor : graph.outputs(op)) fresh[tensor] = at + 1;
    checkpoint(1 + (at - first) / 64);  // a run is far less work than an op on a device
    std::int64_t more = 0;
    Best& next = best[at + 1];
    for (std::size_t from = first; from <= at; ++from) {
      crossing[from] += more += std::exchange(added[from], 0);
      const std::int64_t bytes = best[from].bytes + crossing[from];
      if (std::pair{bytes, best[from].runs + 1} < std::pair{next.bytes, next.runs})
        next = {bytes, best[from].runs + 1, from};
    }
  }
  std::vector<std::size_t> begins;
  for (std::size_t end = count; end > 0; end = best[end].from) begins.push_back(best[end].from);
  std::ranges::reverse(begins);
  return begins;
}

}  // namespace trainyard
