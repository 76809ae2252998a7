#include "trainyard/bound/chains.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/check_entries.hpp"

namespace trainyard {
namespace {

void raise(Nanoseconds& value, Nanoseconds to) { value = std::max(value, to); }

/// An op that a join waits for, or that a fork serves.
struct Neighbor {
  Nanoseconds release;   // head: the earliest start
  Nanoseconds duration;  // shortest duration
  Nanoseconds crossing;  // transfer time of its tensors; kLongestTime if it is colocated

  Nanoseconds end() const { return release + duration; }
  Nanoseconds arrival() const { return crossing == kLongestTime ? kLongestTime : end() + crossing; }
};

/// M of the header: the least end time of the ops on one device. `ops` are sorted by descending release.
Nanoseconds one_device(const std::vector<Neighbor>& ops, Nanoseconds gap) {
  Nanoseconds work{0}, most{0};
  for (const Neighbor& op : ops) {
    if (op.duration.count > 0) work += op.duration + gap;
    if (work.count > 0) raise(most, op.release + work - gap);
    raise(most, op.end());
  }
  return most;
}

/// The least k of the header.
Nanoseconds join(std::vector<Neighbor>& ops, Nanoseconds gap) {
  Nanoseconds least{0};
  for (const Neighbor& op : ops) raise(least, op.end());
  if (ops.size() < 2) return least;
  std::ranges::sort(ops, [](const Neighbor& a, const Neighbor& b) {
    return std::tuple{b.arrival(), b.release, b.duration} < std::tuple{a.arrival(), a.release, a.duration};
  });
  constexpr std::size_t kMostTogether = 48;  // limits the time; leaving out the other ops lowers the bound
  std::vector<Neighbor> together;
  Nanoseconds best = kLongestTime;
  for (std::size_t i = 0;; ++i) {
    // Ops before i share the device; the others need not.
    const Nanoseconds needed = one_device(together, gap);
    if (i == ops.size() || i == kMostTogether) return std::max(least, std::min(best, needed));
    best = std::min(best, std::max(needed, ops[i].arrival()));
    if (needed >= best) return std::max(least, best);  // `needed` only grows
    together.insert(std::ranges::lower_bound(together, ops[i].release, std::greater<>{}, &Neighbor::release), ops[i]);
  }
}

}  // namespace

Nanoseconds shortest_transfer(const Problem& problem, TensorId tensor) {
  Nanoseconds least = kLongestTime;
  for (std::uint32_t routes = 0; routes < problem.cluster().route_classes().size(); ++routes)
    least = std::min(least, problem.transfer_time(tensor, routes));
  return least;
}

Chains chains_of_ops(const Problem& problem) {
  const Graph& graph = problem.graph();
  Chains chains{IdMap<OpId, Nanoseconds>(graph.op_count()), IdMap<OpId, Nanoseconds>(graph.op_count())};
  const auto& order = graph.topological_order();
  for (const OpId op : order) {
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId earlier = graph.producer(tensor);
      raise(chains.head[op], chains.head[earlier] + problem.shortest(earlier));
    }
    for (const OpId earlier : graph.after(op)) raise(chains.head[op], chains.head[earlier] + problem.shortest(earlier));
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    const OpId op = order[i];
    const Nanoseconds from_here = chains.tail[op] + problem.shortest(op);
    for (const TensorId tensor : graph.inputs(op)) raise(chains.tail[graph.producer(tensor)], from_here);
    for (const OpId earlier : graph.after(op)) raise(chains.tail[earlier], from_here);
  }
  return chains;
}

Chains chains_with_transfers(const Problem& problem) {
  const Graph& graph = problem.graph();
  Nanoseconds gap = kLongestTime;
  for (const DeviceId device : problem.devices()) gap = std::min(gap, problem.cluster().device(device).gap);

  Chains chains{IdMap<OpId, Nanoseconds>(graph.op_count()), IdMap<OpId, Nanoseconds>(graph.op_count())};
  std::vector<std::pair<OpId, Nanoseconds>> edges;  // neighbor and crossing; a neighbor may have several
  std::vector<Neighbor> neighbors;
  const auto least = [&](OpId op, const IdMap<OpId, Nanoseconds>& release) {
    std::ranges::sort(edges);
    neighbors.clear();
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (i + 1 < edges.size() && edges[i + 1].first == edges[i].first) continue;  // the longest comes last
      const OpId other = edges[i].first;
      const bool tied = problem.group(other) == problem.group(op);
      neighbors.push_back({release[other], problem.shortest(other), tied ? kLongestTime : edges[i].second});
    }
    return join(neighbors, gap);
  };

  const auto& order = graph.topological_order();
  for (const OpId op : order) {
    edges.clear();
    for (const TensorId tensor : graph.inputs(op))
      edges.emplace_back(graph.producer(tensor), shortest_transfer(problem, tensor));
    for (const OpId earlier : graph.after(op)) edges.emplace_back(earlier, Nanoseconds{0});
    chains.head[op] = least(op, chains.head);
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    const OpId op = order[i];
    edges.clear();
    for (const TensorId tensor : graph.outputs(op)) {
      if (graph.consumers(tensor).empty()) continue;
      const Nanoseconds time = shortest_transfer(problem, tensor);
      for (const OpId reader : graph.consumers(tensor)) edges.emplace_back(reader, time);
    }
    for (const OpId later : graph.before(op)) edges.emplace_back(later, Nanoseconds{0});
    chains.tail[op] = least(op, chains.tail);
  }
  return chains;
}

Nanoseconds longest_chain(const Problem& problem, const Chains& chains) {
  check_entries("the heads", chains.head.size(), problem.op_count(), "ops");
  check_entries("the tails", chains.tail.size(), problem.op_count(), "ops");
  Nanoseconds longest{0};
  for (const OpId op : problem.ops()) raise(longest, chains.head[op] + problem.shortest(op) + chains.tail[op]);
  return longest;
}

}  // namespace trainyard
