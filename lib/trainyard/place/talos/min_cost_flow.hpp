#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

/// Minimum-cost flow by successive shortest paths with potentials (Tomizawa 1971; Edmonds and Karp 1972), which grows:
/// nodes and their outgoing arcs may be added to a flow that is there, and a unit sent from them.
///
/// A scheduler that decides a few ops at a time adds one shortest path for each op to the flow of those before, where a
/// network simplex would start from nothing. Capacities and costs are whole numbers. A flow sent from
/// new nodes stays of least cost for all that was sent, as long as nothing flows into these nodes.
class MinCostFlow {
 public:
  using Node = std::uint32_t;
  using Arc = std::uint32_t;

  void clear();
  Node add_node();
  /// capacity >= 0, cost >= 0; into no node but of those that were there before `from`.
  Arc add_arc(Node from, Node to, std::int64_t capacity, std::int64_t cost);

  /// Sends up to `amount` along the cheapest ways; returns how much there was room for.
  std::int64_t send(Node from, Node to, std::int64_t amount);

  std::int64_t flow(Arc arc) const { return arcs_[2 * arc + 1].room; }
  std::int64_t cost() const { return cost_; }

 private:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);
  struct Half {  // an arc, or, beside it, its reverse
    Node to;
    std::uint32_t next;  // of the same node
    std::int64_t room, cost;
  };
  struct Reached {
    std::int64_t distance;
    Node node;

    bool operator>(const Reached& other) const {
      return distance != other.distance ? distance > other.distance : node > other.node;
    }
  };

  /// Distances by reduced costs from the node, and the arc that each was reached by; false where `to` is not.
  bool find_path(Node from, Node to);

  std::vector<Half> arcs_;
  std::vector<std::uint32_t> first_;     // arc of each node
  std::vector<std::int64_t> potential_;  // reduced costs cost + p(from) - p(to) are never negative where there is room
  std::vector<std::int64_t> distance_;
  std::vector<std::uint32_t> came_by_;
  std::vector<Reached> heap_;
  std::int64_t cost_ = 0;
};

}  // namespace trainyard
