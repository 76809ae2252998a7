#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

/// Incremental minimum-cost flow, by successive shortest paths with potentials (Tomizawa 1971; Edmonds and Karp 1972).
/// Nodes and their outgoing arcs may be added to an existing flow, and a unit sent from them.
///
/// A scheduler that decides a few ops at a time adds one shortest path for each op to the flow of earlier ops, where a
/// network simplex would start from scratch. Capacities and costs are integers. After flow is sent from new nodes, the
/// whole flow is still of least cost, as long as nothing flows into these nodes.
class MinCostFlow {
 public:
  using Node = std::uint32_t;
  using Arc = std::uint32_t;

  void clear();
  Node add_node();
  /// Requires capacity >= 0 and cost >= 0; `to` must have been added before `from`.
  Arc add_arc(Node from, Node to, std::int64_t capacity, std::int64_t cost);

  /// Sends up to `amount` along the cheapest paths. Returns the amount for which there was room.
  std::int64_t send(Node from, Node to, std::int64_t amount);

  std::int64_t flow(Arc arc) const { return arcs_[2 * arc + 1].room; }
  std::int64_t cost() const { return cost_; }

 private:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);
  struct Half {  // an arc; its reverse is stored next to it
    Node to;
    std::uint32_t next;  // next arc of the same node
    std::int64_t room, cost;
  };
  struct Reached {
    std::int64_t distance;
    Node node;

    bool operator>(const Reached& other) const {
      return distance != other.distance ? distance > other.distance : node > other.node;
    }
  };

  /// Finds distances by reduced costs from the node, and the arc by which each node is reached. Returns false if `to`
  /// cannot be reached.
  bool find_path(Node from, Node to);

  std::vector<Half> arcs_;
  std::vector<std::uint32_t> first_;     // arc of each node
  std::vector<std::int64_t> potential_;  // reduced costs cost + p(from) - p(to) are >= 0 on arcs with room
  std::vector<std::int64_t> distance_;
  std::vector<std::uint32_t> came_by_;
  std::vector<Reached> heap_;
  std::int64_t cost_ = 0;
};

}  // namespace trainyard
