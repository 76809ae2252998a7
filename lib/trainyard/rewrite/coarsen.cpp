#include "trainyard/rewrite/coarsen.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/graph/topological_order.hpp"

namespace trainyard {
namespace {

using Vertex = std::uint32_t;
using Edge = std::pair<Vertex, Vertex>;
using Edges = std::vector<std::pair<Edge, std::int64_t>>;  // with the bytes that they carry, ascending
constexpr Vertex kNone = ~Vertex{0};

/// Merges equal edges into one, with the bytes of all.
Edges distinct(Edges edges) {
  sort_by(edges, &Edges::value_type::first);
  std::size_t count = 0;
  for (const auto& [edge, bytes] : edges)
    if (count > 0 && edges[count - 1].first == edge)
      edges[count - 1].second += bytes;
    else
      edges[count++] = {edge, bytes};
  edges.resize(count);
  return edges;
}

/// The current quotient graph, with distinct edges.
class Quotient {
 public:
  Quotient(std::size_t count, Edges edges)
      : after_(count), before_(count), height_(count, 1), edges_(std::move(edges)) {
    for (const auto& [edge, bytes] : edges_) {
      after_[edge.first].push_back(edge.second);
      before_[edge.second].push_back(edge.first);
    }
    for (const Vertex v : topological_order())
      for (const Vertex next : after_[v]) height_[next] = std::max(height_[next], height_[v] + 1);
  }

  std::vector<Vertex> topological_order() const {
    return trainyard::topological_order<Vertex>(after_.size(), successors_in(after_));
  }

  /// Condition (ii).
  bool may_merge(Vertex u, Vertex v) const {
    if (after_[u].size() == 1 || before_[v].size() == 1 || height_[v] == height_[u] + 1) return true;
    return std::ranges::all_of(after_[u], [&](Vertex w) { return w == v || height_[w] > height_[v]; });
  }
  /// Conditions (i) and (iii) with respect to the batch. `tail_of[v]` is the u of v's edge, `head_of[u]` the v of u's
  /// edge.
  bool goes_with(Vertex u, Vertex v, const std::vector<Vertex>& tail_of, const std::vector<Vertex>& head_of) const {
    if (tail_of[u] != kNone || head_of[u] != kNone || tail_of[v] != kNone || head_of[v] != kNone) return false;
    for (const Vertex w : after_[u])
      if (tail_of[w] != kNone && height_[tail_of[w]] == height_[u]) return false;
    for (const Vertex w : before_[v])
      if (head_of[w] != kNone && height_[w] == height_[u]) return false;
    return true;
  }

  /// Whether the edge between the two is the leaf's only incoming or only outgoing edge.
  bool is_leaf_of(Vertex leaf, Vertex hub) const {
    return (before_[leaf].size() == 1 && before_[leaf].front() == hub) ||
           (after_[leaf].size() == 1 && after_[leaf].front() == hub);
  }

  /// Edges in descending order of bytes.
  Edges by_bytes() const {
    Edges edges = edges_;
    sort_by_descending(edges, &Edges::value_type::second);
    return edges;
  }
  bool is_alone(Vertex v) const { return after_[v].empty() && before_[v].empty(); }

 private:
  std::vector<std::vector<Vertex>> after_, before_;
  std::vector<std::size_t> height_;
  Edges edges_;
};

/// Merges vertices into clusters, round by round.
class Coarsener {
 public:
  Coarsener(const Graph& graph, const OpWeights& weights) : graph_(graph), of_(graph.op_count()) {
    for (Vertex v = 0; v < of_.size(); ++v) {
      of_[v] = v;
      time_.push_back(weights.time[OpId{v}].count);
      kind_.push_back(weights.kind[OpId{v}]);
    }
  }

  void run(std::size_t target) {
    std::int64_t total = 0;
    for (const std::int64_t t : time_) total += t;
    const auto count = static_cast<std::int64_t>(std::max<std::size_t>(target, 1));
    std::int64_t limit = std::max<std::int64_t>(3 * total / count, 1);
    for (bool merged = true; merged && time_.size() > target;) {
      const Quotient now = quotient();
      const std::size_t count_before = time_.size();
      merged = merge_round(now, target, limit);
      while (!merged && limit <= total) {
        limit += limit / 2 + 1;
        merged = merge_round(now, target, limit);
      }
      if (merged && 100 * (count_before - time_.size()) < count_before) merge_leaves(quotient(), target, limit);
    }
    merge_alone(target);
  }

  Coarsening result() const {
    const Quotient quotient = this->quotient();
    std::vector<Vertex> number(time_.size());
    Vertex next = 0;
    for (const Vertex v : quotient.topological_order()) number[v] = next++;
    Coarsening coarsening;
    coarsening.cluster = IdMap<OpId, ClusterOpId>(of_.size());
    std::vector<std::pair<ClusterOpId, OpId>> pairs;
    for (const OpId op : graph_.topological_order()) {
      const ClusterOpId cluster{number[of_[op.index()]]};
      coarsening.cluster[op] = cluster;
      pairs.emplace_back(cluster, op);
    }
    coarsening.members = CompressedRows<ClusterOpId, OpId>(time_.size(), pairs);
    return coarsening;
  }

 private:
  Quotient quotient() const {
    Edges edges;
    for (const OpId op : graph_.ops()) {
      const auto add = [&](OpId earlier, std::int64_t bytes) {
        const Edge edge{of_[earlier.index()], of_[op.index()]};
        if (edge.first != edge.second) edges.emplace_back(edge, bytes);
      };
      for (const TensorId tensor : graph_.inputs(op)) add(graph_.producer(tensor), graph_.bytes(tensor).count);
      for (const OpId earlier : graph_.after(op)) add(earlier, 0);
    }
    return {time_.size(), distinct(std::move(edges))};
  }

  bool merge_round(const Quotient& quotient, std::size_t target, std::int64_t limit) {
    std::vector<Vertex> tail_of(time_.size(), kNone), head_of(time_.size(), kNone);
    std::size_t left = time_.size();
    for (const auto& [edge, bytes] : quotient.by_bytes()) {
      if (left <= target) break;
      const auto [u, v] = edge;
      if (kind_[u] != kind_[v] || time_[u] + time_[v] > limit) continue;
      if (!quotient.may_merge(u, v) || !quotient.goes_with(u, v, tail_of, head_of)) continue;
      tail_of[v] = u;
      head_of[u] = v;
      --left;
    }
    if (left == time_.size()) return false;
    merge(tail_of);
    return true;
  }

  /// Merges any number of leaves into one hub, while a round merges only one. A leaf keeps its single predecessor or
  /// successor whatever is merged elsewhere, so no cycle closes.
  void merge_leaves(const Quotient& quotient, std::size_t target, std::int64_t limit) {
    std::vector<Vertex> into(time_.size(), kNone);
    std::vector<bool> is_hub(time_.size(), false);
    std::vector<std::int64_t> time = time_;
    std::size_t left = time_.size();
    for (const auto& [edge, bytes] : quotient.by_bytes())
      for (const auto& [leaf, hub] : {Edge{edge.second, edge.first}, edge}) {
        if (left <= target || is_hub[leaf] || into[leaf] != kNone || into[hub] != kNone) continue;
        if (kind_[leaf] != kind_[hub] || time[leaf] + time[hub] > limit || !quotient.is_leaf_of(leaf, hub)) continue;
        into[leaf] = hub;
        is_hub[hub] = true;
        time[hub] += time[leaf];
        --left;
      }
    merge(into);
  }

  /// Merges every vertex v with an entry in `into` into `into[v]`.
  void merge(const std::vector<Vertex>& into) {
    std::vector<Vertex> number(time_.size(), kNone), kind;
    std::vector<std::int64_t> time;
    for (Vertex v = 0; v < time_.size(); ++v) {
      if (into[v] != kNone) continue;
      number[v] = static_cast<Vertex>(time.size());
      time.push_back(time_[v]);
      kind.push_back(kind_[v]);
    }
    for (Vertex v = 0; v < time_.size(); ++v) {
      if (into[v] == kNone) continue;
      number[v] = number[into[v]];
      time[number[v]] += time_[v];
    }
    for (Vertex& at : of_) at = number[at];
    time_ = std::move(time);
    kind_ = std::move(kind);
  }

  /// Merges clusters without edges: repeatedly the two of one kind with the least time.
  void merge_alone(std::size_t target) {
    if (time_.size() <= target) return;
    const Quotient quotient = this->quotient();
    using Entry = std::pair<std::int64_t, Vertex>;
    std::map<Vertex, std::priority_queue<Entry, std::vector<Entry>, std::greater<>>> alone;
    for (Vertex v = 0; v < time_.size(); ++v)
      if (quotient.is_alone(v)) alone[kind_[v]].emplace(time_[v], v);
    std::vector<Vertex> into(time_.size(), kNone);
    std::size_t left = time_.size();
    for (auto& [kind, queue] : alone)
      while (left > target && queue.size() > 1) {
        const auto [a_time, a] = queue.top();
        queue.pop();
        const auto [b_time, b] = queue.top();
        queue.pop();
        into[a] = b;
        queue.emplace(a_time + b_time, b);
        --left;
      }
    for (Vertex v = 0; v < into.size(); ++v)  // follows each chain to its end
      while (into[v] != kNone && into[into[v]] != kNone) into[v] = into[into[v]];
    merge(into);
  }

  const Graph& graph_;
  std::vector<Vertex> of_;  // op to vertex
  std::vector<std::int64_t> time_;
  std::vector<Vertex> kind_;
};

}  // namespace

Coarsening coarsen(const Graph& graph, const OpWeights& weights, std::size_t target) {
  if (weights.time.size() != graph.op_count() || weights.kind.size() != graph.op_count())
    refuse("size",
           "weights with " + std::to_string(weights.time.size()) + " times and " + std::to_string(weights.kind.size()) +
               " kinds do not fit a graph of " + std::to_string(graph.op_count()) + " ops",
           "give both for each op, indexed by its id");
  Coarsener coarsener(graph, weights);
  coarsener.run(target);
  return coarsener.result();
}

}  // namespace trainyard
