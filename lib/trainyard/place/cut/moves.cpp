#include "trainyard/place/cut/moves.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard {
namespace {

constexpr int kMostPasses = 8;

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}

}  // namespace

CutMoves::CutMoves(const CutGraph& graph, const CutTargets& targets, std::vector<std::uint8_t> sides)
    : graph_(graph), targets_(targets), sides_(std::move(sides)), gains_(graph.size(), 0), locked_(graph.size(), 0) {
  std::array<std::int64_t, 2> heaviest{};
  for (std::size_t v = 0; v < graph.size(); ++v) {
    const std::uint8_t side = sides_[v];
    loads_[side] += graph.loads[v][side];
    bytes_[side] += graph.bytes[v];
    for (std::size_t e = graph.starts[v]; e < graph.starts[v + 1]; ++e) {
      const bool cut = sides_[graph.neighbours[e]] != side;
      gains_[v] += cut ? graph.weights[e] : -graph.weights[e];
      if (cut && graph.neighbours[e] > v) cut_ += graph.weights[e];
    }
    if (graph.fixed[v] == CutGraph::kFree)
      for (std::size_t s = 0; s < 2; ++s) heaviest[s] = std::max(heaviest[s], graph.loads[v][s]);
  }
  for (std::size_t s = 0; s < 2; ++s) {
    const auto slack = static_cast<std::int64_t>(std::floor(static_cast<double>(targets.loads[s]) * targets.imbalance));
    limits_[s] = targets.loads[s] + std::max(slack, (heaviest[s] + 1) / 2);
  }
}

double CutMoves::beyond(const std::array<std::int64_t, 2>& loads, const std::array<std::int64_t, 2>& bytes) const {
  double sum = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    if (loads[s] > limits_[s]) sum += share(loads[s] - limits_[s], limits_[s]);
    if (bytes[s] > targets_.bytes[s]) sum += share(bytes[s] - targets_.bytes[s], targets_.bytes[s]);
  }
  return sum;
}

CutQuality CutMoves::quality() const {
  return {beyond(loads_, bytes_), cut_,
          std::max(share(loads_[0], targets_.loads[0]), share(loads_[1], targets_.loads[1]))};
}

double CutMoves::beyond_after(std::uint32_t vertex) const {
  const std::size_t from = sides_[vertex], to = 1 - from;
  auto loads = loads_, bytes = bytes_;
  loads[from] -= graph_.loads[vertex][from];
  loads[to] += graph_.loads[vertex][to];
  bytes[from] -= graph_.bytes[vertex];
  bytes[to] += graph_.bytes[vertex];
  return beyond(loads, bytes);
}

void CutMoves::move(std::uint32_t vertex) {
  const std::size_t from = sides_[vertex], to = 1 - from;
  loads_[from] -= graph_.loads[vertex][from];
  loads_[to] += graph_.loads[vertex][to];
  bytes_[from] -= graph_.bytes[vertex];
  bytes_[to] += graph_.bytes[vertex];
  cut_ -= gains_[vertex];
  gains_[vertex] = -gains_[vertex];
  sides_[vertex] = static_cast<std::uint8_t>(to);
  for (std::size_t e = graph_.starts[vertex]; e < graph_.starts[vertex + 1]; ++e) {
    const std::uint32_t other = graph_.neighbours[e];
    gains_[other] += sides_[other] == to ? -2 * graph_.weights[e] : 2 * graph_.weights[e];
  }
}

void CutMoves::fill_in_order() {
  for (std::uint32_t v = 0; v < graph_.size() && loads_[0] < targets_.loads[0]; ++v)
    if (graph_.fixed[v] == CutGraph::kFree && sides_[v] == 1 &&
        loads_[0] + graph_.loads[v][0] / 2 <= targets_.loads[0] && bytes_[0] + graph_.bytes[v] <= targets_.bytes[0])
      move(v);
}

void CutMoves::grow(std::uint32_t from) {
  Heap& frontier = heaps_[1];
  frontier = {};
  const auto size = static_cast<std::uint32_t>(graph_.size());
  std::uint32_t next = from, seen = 0;  // free vertices from `from` on, around the end
  while (loads_[0] < targets_.loads[0]) {
    std::uint32_t vertex = size;
    while (!frontier.empty() && vertex == size) {
      const Candidate top = frontier.top();
      frontier.pop();
      if (sides_[top.vertex] == 1 && gains_[top.vertex] == top.gain && !locked_[top.vertex]) vertex = top.vertex;
    }
    for (; vertex == size && seen < size; ++seen, next = next + 1 == size ? 0 : next + 1)
      if (graph_.fixed[next] == CutGraph::kFree && sides_[next] == 1 && !locked_[next]) vertex = next;
    if (vertex == size) break;
    locked_[vertex] = 1;
    if (loads_[0] + graph_.loads[vertex][0] / 2 > targets_.loads[0] ||
        bytes_[0] + graph_.bytes[vertex] > targets_.bytes[0])
      continue;  // a smaller vertex may still fit
    move(vertex);
    for (std::size_t e = graph_.starts[vertex]; e < graph_.starts[vertex + 1]; ++e) {
      const std::uint32_t other = graph_.neighbours[e];
      if (graph_.fixed[other] == CutGraph::kFree && sides_[other] == 1 && !locked_[other]) offer(other);
    }
  }
  std::ranges::fill(locked_, std::uint8_t{0});
}

bool CutMoves::at_boundary(std::uint32_t vertex) const {
  for (std::size_t e = graph_.starts[vertex]; e < graph_.starts[vertex + 1]; ++e)
    if (sides_[graph_.neighbours[e]] != sides_[vertex]) return true;
  return false;
}

bool CutMoves::find_candidate(std::size_t side) {
  Heap& heap = heaps_[side];
  const double now = beyond(loads_, bytes_);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    if (!locked_[top.vertex] && sides_[top.vertex] == side && gains_[top.vertex] == top.gain) {
      const double after = beyond_after(top.vertex);
      if (now > 0 ? after < now : after == 0) return true;
    }
    heap.pop();
  }
  return false;
}

bool CutMoves::improve_once() {
  heaps_ = {};
  const CutQuality start = quality();
  for (std::uint32_t v = 0; v < graph_.size(); ++v)
    if (graph_.fixed[v] == CutGraph::kFree && (start.beyond > 0 || at_boundary(v))) offer(v);
  std::vector<std::uint32_t> moved;
  std::size_t kept = 0;
  CutQuality best = start;
  const std::size_t patience = std::max<std::size_t>(50, graph_.size() / 50);
  while (moved.size() - kept < patience) {
    const std::array<bool, 2> able{find_candidate(0), find_candidate(1)};
    if (!able[0] && !able[1]) break;
    std::size_t side = able[0] ? 0 : 1;
    if (able[0] && able[1]) {
      const std::int64_t gain0 = heaps_[0].top().gain, gain1 = heaps_[1].top().gain;
      const bool fuller = share(loads_[1], targets_.loads[1]) > share(loads_[0], targets_.loads[0]);
      side = gain0 != gain1 ? (gain1 > gain0 ? 1 : 0) : (fuller ? 1 : 0);
    }
    const std::uint32_t vertex = heaps_[side].top().vertex;
    heaps_[side].pop();
    locked_[vertex] = 1;
    move(vertex);
    moved.push_back(vertex);
    for (std::size_t e = graph_.starts[vertex]; e < graph_.starts[vertex + 1]; ++e) {
      const std::uint32_t other = graph_.neighbours[e];
      if (!locked_[other] && graph_.fixed[other] == CutGraph::kFree) offer(other);
    }
    if (const CutQuality now = quality(); now < best) {
      best = now;
      kept = moved.size();
    }
  }
  for (const std::uint32_t vertex : moved) locked_[vertex] = 0;
  while (moved.size() > kept) {
    move(moved.back());
    moved.pop_back();
  }
  return best < start;
}

void CutMoves::improve() {
  for (int pass = 0; pass < kMostPasses && improve_once(); ++pass) {
  }
}

}  // namespace trainyard
