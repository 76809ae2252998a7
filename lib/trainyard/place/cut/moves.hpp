#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "trainyard/place/cut/cut_graph.hpp"

namespace trainyard {

/// Cost of a cut, compared member by member; less is better.
struct CutQuality {
  double beyond = 0;       // bytes above their limits and loads above theirs, as shares of these
  std::int64_t cut = 0;    // weight of the edges between the sides
  double fuller_side = 0;  // load of the fuller side as a share of its target

  friend auto operator<=>(const CutQuality&, const CutQuality&) = default;
};

/// A cut that is changed one vertex at a time.
///
/// improve() makes passes of Fiduccia and Mattheyses (DAC 1982). The vertex whose move gains most is moved, if the
/// sides stay within their limits, and is locked. At the end of the pass all moves after the best cut are undone.
/// Vertices wait in heaps instead of buckets, since weights are times. While a side exceeds its limits, only moves that
/// reduce the excess are made, whatever they cost.
class CutMoves {
 public:
  CutMoves(const CutGraph& graph, const CutTargets& targets, std::vector<std::uint8_t> sides);

  /// Starts with all free vertices on side 1. Side 0 grows from the vertex to its target, always by the neighbour that
  /// gains most; without a neighbour, by the next free vertex from `from` on.
  void grow(std::uint32_t from);
  /// Moves the free vertices in their order to side 0, up to its target.
  void fill_in_order();
  void improve();

  CutQuality quality() const;
  const std::vector<std::uint8_t>& sides() const { return sides_; }

 private:
  struct Candidate {
    std::int64_t gain;
    std::uint32_t vertex;

    bool operator<(const Candidate& other) const {  // the largest is on top; ties: the lower id
      return gain != other.gain ? gain < other.gain : vertex > other.vertex;
    }
  };
  using Heap = std::priority_queue<Candidate>;

  bool improve_once();
  void move(std::uint32_t vertex);
  void offer(std::uint32_t vertex) { heaps_[sides_[vertex]].push({gains_[vertex], vertex}); }
  /// Brings the best candidate of the side to the top and drops those that are outdated or would exceed the limits.
  /// Returns false if none is left.
  bool find_candidate(std::size_t side);
  double beyond_after(std::uint32_t vertex) const;
  double beyond(const std::array<std::int64_t, 2>& loads, const std::array<std::int64_t, 2>& bytes) const;
  bool at_boundary(std::uint32_t vertex) const;

  const CutGraph& graph_;
  const CutTargets& targets_;
  std::array<std::int64_t, 2> limits_{};  // of the loads
  std::vector<std::uint8_t> sides_;
  std::vector<std::int64_t> gains_;   // decrease of the cut if the vertex moves
  std::vector<std::uint8_t> locked_;  // in this pass
  std::array<std::int64_t, 2> loads_{}, bytes_{};
  std::int64_t cut_ = 0;
  std::array<Heap, 2> heaps_;
};

}  // namespace trainyard
