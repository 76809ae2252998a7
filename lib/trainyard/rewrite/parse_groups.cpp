#include "trainyard/rewrite/parse_groups.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "trainyard/core/check_entries.hpp"

namespace trainyard {
namespace {

class Parser {
 public:
  Parser(const Graph& graph, std::size_t most_groups, const IdMap<OpId, std::uint32_t>& kind)
      : graph_(graph), most_(most_groups), kind_(kind), owner_(graph.op_count()), count_(graph.op_count()) {
    std::iota(owner_.begin(), owner_.end(), std::uint32_t{0});
  }

  OpGroups run() {
    std::map<std::string, OpId> colocated;
    for (const OpId op : graph_.ops())
      if (const std::string& name = graph_.colocation_group(op); !name.empty())
        join(find(op), find(colocated.emplace(name, op).first->second));
    join_chains();
    while (count_ > most_ && join_best()) {
    }
    IdMap<OpId, std::uint32_t> label(graph_.op_count());
    for (const OpId op : graph_.ops()) label[op] = find(op);
    return groups_by(graph_, label);
  }

 private:
  using Edges = std::map<std::uint32_t, std::int64_t>;  // bytes by neighbour

  std::uint32_t find(OpId op) {
    auto at = static_cast<std::uint32_t>(op.index());
    while (owner_[at] != at) at = owner_[at] = owner_[owner_[at]];
    return at;
  }
  /// Merges two groups. The one with the lower first op stays.
  void join(std::uint32_t a, std::uint32_t b) {
    if (a == b) return;
    owner_[std::max(a, b)] = std::min(a, b);
    --count_;
  }
  bool alike(std::uint32_t a, std::uint32_t b) const { return kind_.empty() || kind_[OpId{a}] == kind_[OpId{b}]; }

  template <class Visit>
  void each_edge(const Visit& visit) const {
    for (const OpId op : graph_.ops()) {
      for (const TensorId tensor : graph_.outputs(op))
        for (const OpId reader : graph_.consumers(tensor)) visit(op, reader, graph_.bytes(tensor).count);
      for (const OpId later : graph_.before(op)) visit(op, later, std::int64_t{0});
    }
  }

  void join_chains() {
    IdMap<OpId, std::set<OpId>> after(graph_.op_count()), before(graph_.op_count());
    each_edge([&](OpId op, OpId later, std::int64_t) {
      after[op].insert(later);
      before[later].insert(op);
    });
    for (const OpId op : graph_.topological_order()) {
      if (count_ <= most_) return;
      if (after[op].size() != 1) continue;
      const OpId reader = *after[op].begin();
      if (before[reader].size() == 1 && alike(find(op), find(reader))) join(find(op), find(reader));
    }
  }

  bool join_best() {
    std::map<std::uint32_t, Edges> edges;
    each_edge([&](OpId op, OpId later, std::int64_t bytes) {
      const std::uint32_t a = find(op), b = find(later);
      if (a == b || !alike(a, b)) return;
      edges[a][b] += bytes;
      edges[b][a] += bytes;
    });
    std::set<std::tuple<std::int64_t, std::uint32_t, std::uint32_t>> best;  // edges with the most bytes first
    for (const auto& [group, neighbours] : edges) {
      const auto most = std::ranges::max_element(neighbours, {}, [](const auto& edge) { return edge.second; });
      best.emplace(-most->second, std::min(group, most->first), std::max(group, most->first));
    }
    for (const auto& [bytes, a, b] : best)
      if (count_ > most_) join(find(OpId{a}), find(OpId{b}));
    return !best.empty();
  }

  const Graph& graph_;
  const std::size_t most_;
  const IdMap<OpId, std::uint32_t>& kind_;
  std::vector<std::uint32_t> owner_;  // itself, or an op on the path to the lowest one of its group
  std::size_t count_;
};

}  // namespace

OpGroups parse_groups(const Graph& graph, std::size_t most_groups, const IdMap<OpId, std::uint32_t>& kind) {
  if (!kind.empty()) check_entries("the kind", kind.size(), graph.op_count(), "ops");
  return Parser{graph, most_groups, kind}.run();
}

}  // namespace trainyard
