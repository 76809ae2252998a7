#include "trainyard/place/talos/min_cost_flow.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>

namespace trainyard {
namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

}  // namespace

void MinCostFlow::clear() {
  arcs_.clear();
  first_.clear();
  potential_.clear();
  cost_ = 0;
}

MinCostFlow::Node MinCostFlow::add_node() {
  first_.push_back(kNone);
  potential_.push_back(0);
  return static_cast<Node>(first_.size() - 1);
}

MinCostFlow::Arc MinCostFlow::add_arc(Node from, Node to, std::int64_t capacity, std::int64_t cost) {
  assert(capacity >= 0 && cost >= 0);
  const auto arc = static_cast<std::uint32_t>(arcs_.size());
  arcs_.push_back({to, first_[from], capacity, cost});
  first_[from] = arc;
  arcs_.push_back({from, first_[to], 0, -cost});
  first_[to] = arc + 1;
  // Nothing flows into the node yet, so its potential may still rise.
  potential_[from] = std::max(potential_[from], potential_[to] - cost);
  return arc / 2;
}

bool MinCostFlow::find_path(Node from, Node to) {
  distance_.assign(first_.size(), kFar);
  came_by_.assign(first_.size(), kNone);
  heap_.clear();
  distance_[from] = 0;
  heap_.push_back({0, from});
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, std::greater{});
    const Reached nearest = heap_.back();
    heap_.pop_back();
    if (nearest.distance > distance_[nearest.node]) continue;
    for (std::uint32_t a = first_[nearest.node]; a != kNone; a = arcs_[a].next) {
      const Half& arc = arcs_[a];
      if (arc.room == 0) continue;
      const std::int64_t reduced = arc.cost + potential_[nearest.node] - potential_[arc.to];
      assert(reduced >= 0);
      if (nearest.distance + reduced >= distance_[arc.to]) continue;
      distance_[arc.to] = nearest.distance + reduced;
      came_by_[arc.to] = a;
      heap_.push_back({distance_[arc.to], arc.to});
      std::ranges::push_heap(heap_, std::greater{});
    }
  }
  return distance_[to] != kFar;
}

std::int64_t MinCostFlow::send(Node from, Node to, std::int64_t amount) {
  std::int64_t sent = 0;
  while (sent < amount && find_path(from, to)) {
    // Nodes beyond `to`, or not reached, count as being as far as `to`.
    const std::int64_t furthest = distance_[to];
    for (Node node = 0; node < first_.size(); ++node) potential_[node] += std::min(distance_[node], furthest);
    std::int64_t room = amount - sent;
    for (Node node = to; node != from; node = arcs_[came_by_[node] ^ 1].to)
      room = std::min(room, arcs_[came_by_[node]].room);
    for (Node node = to; node != from; node = arcs_[came_by_[node] ^ 1].to) {
      Half& arc = arcs_[came_by_[node]];
      arc.room -= room;
      arcs_[came_by_[node] ^ 1].room += room;
      cost_ += room * arc.cost;
    }
    sent += room;
  }
  return sent;
}

}  // namespace trainyard
