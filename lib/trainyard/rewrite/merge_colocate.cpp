#include "trainyard/rewrite/merge_colocate.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

using Vertex = std::uint32_t;

class Merger {
 public:
  Merger(const Graph& graph, const MergeOptions& options)
      : graph_(graph),
        options_(options),
        owner_(graph.op_count()),
        sends_(graph.op_count(), 0),
        weight_(graph.op_count(), 0),
        out_(graph.op_count()),
        in_(graph.op_count()) {
    std::iota(owner_.begin(), owner_.end(), Vertex{0});
    for (const OpId op : graph.ops()) {
      const auto from = static_cast<Vertex>(op.index());
      if (!options.weight.empty()) weight_[from] = options.weight[op];
      for (const TensorId tensor : graph.outputs(op)) {
        sends_[from] += graph.bytes(tensor).count;
        for (const OpId reader : graph.consumers(tensor)) connect(from, reader, graph.bytes(tensor).count);
      }
      for (const OpId later : graph.before(op)) connect(from, later, 0);
    }
  }

  OpGroups run() {
    std::map<std::string, Vertex> colocated;
    alive_ = owner_.size();
    for (const OpId op : graph_.ops()) {
      const std::string& name = graph_.colocation_group(op);
      if (name.empty()) continue;
      const auto node = static_cast<Vertex>(op.index());
      const auto [at, is_first] = colocated.emplace(name, node);
      if (is_first) continue;
      gather(node);
      merge(node, at->second);
    }
    while (true) {
      for (Vertex node = 0; node < owner_.size(); ++node)
        if (owner_[node] == node) waiting_.emplace(sends_[node], node);
      merge_waiting();
      // Another pass changes nothing if no merge was left out because of its weight, or each group sends enough.
      if (alive_ <= options_.most_groups || !hindered_) break;
      hindered_ = false;
      heaviest_ = heaviest_ > kNoLimit / 2 ? kNoLimit : std::max<std::int64_t>(1, 2 * heaviest_);
    }
    return groups();
  }

 private:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  struct Edge {
    Vertex other;
    std::int64_t bytes;
  };

  void merge_waiting() {
    std::map<std::uint32_t, Vertex> lonely;  // by kind
    while (alive_ > options_.most_groups && !waiting_.empty()) {
      const auto [bytes, node] = *waiting_.begin();
      if (bytes >= options_.enough.count) break;
      if (options_.checkpoint) options_.checkpoint();
      waiting_.erase(waiting_.begin());
      gather(node);
      if (const auto to = partner(node)) {
        waiting_.erase({sends_[*to], *to});
        merge(node, *to);
        waiting_.emplace(sends_[*to], *to);
        continue;
      }
      if (has_neighbour(node)) continue;
      const auto [at, is_first] = lonely.emplace(kind(node), node);
      if (is_first || find(at->second) == node) continue;
      if (fits(node, find(at->second)))
        merge(node, find(at->second));
      else
        at->second = node;
    }
  }

  void connect(Vertex from, OpId reader, std::int64_t bytes) {
    const auto to = static_cast<Vertex>(reader.index());
    out_[from].push_back({to, bytes});
    in_[to].push_back({from, bytes});
  }

  /// Brings the node's edges up to date: one for each neighbour, in ascending order.
  void gather(Vertex node) {
    for (std::vector<Edge>* edges : {&out_[node], &in_[node]}) {
      for (Edge& edge : *edges) edge.other = find(edge.other);
      std::erase_if(*edges, [node](const Edge& edge) { return edge.other == node; });
      std::ranges::sort(*edges, {}, &Edge::other);
      std::size_t count = 0;
      for (const Edge edge : *edges)
        if (count > 0 && (*edges)[count - 1].other == edge.other)
          (*edges)[count - 1].bytes += edge.bytes;
        else
          (*edges)[count++] = edge;
      edges->resize(count);
    }
  }

  std::uint32_t kind(Vertex node) const { return options_.kind.empty() ? 0 : options_.kind[OpId{node}]; }

  Vertex find(Vertex node) {
    while (owner_[node] != node) node = owner_[node] = owner_[owner_[node]];
    return node;
  }

  bool fits(Vertex a, Vertex b) {
    if (weight_[a] <= heaviest_ - weight_[b]) return true;
    hindered_ = true;
    return false;
  }

  /// The neighbour with the largest edge, among those of the same kind that fit the weight limit.
  std::optional<Vertex> largest(const std::vector<Edge>& edges, Vertex of) {
    std::optional<Vertex> best;
    std::int64_t most = 0;
    for (const auto& [node, bytes] : edges)
      if (kind(node) == kind(of) && (!best || bytes > most) && fits(node, of)) {
        best = node;
        most = bytes;
      }
    return best;
  }
  std::optional<Vertex> partner(Vertex node) {
    const auto consumer = largest(out_[node], node);
    return consumer ? consumer : largest(in_[node], node);
  }
  bool has_neighbour(Vertex node) const {
    const auto same_kind = [&](const Edge& edge) { return kind(edge.other) == kind(node); };
    return std::ranges::any_of(out_[node], same_kind) || std::ranges::any_of(in_[node], same_kind);
  }

  /// Merges `gone`, whose edges are gathered, into `into`.
  void merge(Vertex gone, Vertex into) {
    sends_[into] += sends_[gone];
    for (auto* all : {&out_, &in_}) {
      std::vector<Edge>& edges = (*all)[gone];
      const auto inside = std::ranges::lower_bound(edges, into, {}, &Edge::other);
      if (inside != edges.end() && inside->other == into) sends_[into] -= inside->bytes;
      (*all)[into].insert((*all)[into].end(), edges.begin(), edges.end());
      edges = {};
    }
    sends_[into] = std::max(std::int64_t{0}, sends_[into]);
    owner_[gone] = into;
    weight_[into] += weight_[gone];
    --alive_;
  }

  OpGroups groups() {
    IdMap<OpId, std::uint32_t> label(graph_.op_count());
    for (const OpId op : graph_.ops()) label[op] = find(static_cast<Vertex>(op.index()));
    return groups_by(graph_, label);
  }

  const Graph& graph_;
  const MergeOptions& options_;
  std::vector<Vertex> owner_;        // itself, or a vertex on the path to its group
  std::vector<std::int64_t> sends_;  // bytes sent to other groups
  std::vector<std::int64_t> weight_;
  std::vector<std::vector<Edge>> out_, in_;  // edges when the node was last gathered, and those merged into it since
  std::set<std::pair<std::int64_t, Vertex>> waiting_;
  std::size_t alive_ = 0;
  std::int64_t heaviest_ = options_.weight.empty() ? kNoLimit : options_.heaviest;
  bool hindered_ = false;  // a merge was left out because of its weight
};

}  // namespace

OpGroups groups_by(const Graph& graph, const IdMap<OpId, std::uint32_t>& label) {
  check_entries("the label", label.size(), graph.op_count(), "ops");
  OpGroups result{.of = IdMap<OpId, std::uint32_t>(graph.op_count()), .ops = {}};
  std::map<std::uint32_t, std::uint32_t> number;
  for (const OpId op : graph.topological_order()) {
    const auto [at, is_new] = number.emplace(label[op], static_cast<std::uint32_t>(result.ops.size()));
    if (is_new) result.ops.emplace_back();
    result.of[op] = at->second;
    result.ops[at->second].push_back(op);
  }
  return result;
}

OpGroups merge_and_colocate(const Graph& graph, const MergeOptions& options) {
  if (!options.kind.empty()) check_entries("the kind", options.kind.size(), graph.op_count(), "ops");
  if (!options.weight.empty()) check_entries("the weight", options.weight.size(), graph.op_count(), "ops");
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t weight : options.weight)
    if (weight < 0 || (left -= weight) < 0)
      refuse("range", "weights of ops are negative, or add up to 2^63 or more", "give them in a larger unit");
  return Merger{graph, options}.run();
}

}  // namespace trainyard
