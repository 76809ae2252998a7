#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "trainyard/place/cut/cut_graph.hpp"

namespace trainyard {

/// Cost of a cut, compared in the order of the members; less is better.
struct CutQuality {
  double beyond = 0;       // bytes above their limits and loads above theirs, as shares of these
  std::int64_t cut = 0;    // weight of the edges between the sides
  double fuller_side = 0;  // load of the fuller side as a share of its target

  friend auto operator<=>(const CutQuality&, const CutQuality&) = default;
};

/// A cut that is changed one vertex at a time.
///
/// improve() makes passes of Fiduccia and Mattheyses (DAC 1982): the vertex whose move gains most moves, if the sides
/// still hold what they should, and is locked; at the end of the pass everything behind the best cut on the way is
/// taken back. Vertices wait in heaps rather than buckets, since weights are times. Where a side holds more than it
/// should, what leaves it goes first, whatever it costs.
class CutMoves {
 public:
  CutMoves(const CutGraph& graph, const CutTargets& targets, std::vector<std::uint8_t> sides);

  /// Everything that is free is on side 1: side 0 grows from the vertex, always by the neighbour that gains most, to
  /// its target; where there is no neighbour, by the next free vertex from there on.
  void grow(std::uint32_t from);
  /// The free vertices in their order go to side 0 up to its target.
  void fill_in_order();
  void improve();

  CutQuality quality() const;
  const std::vector<std::uint8_t>& sides() const { return sides_; }

 private:
  struct Candidate {
    std::int64_t gain;
    std::uint32_t vertex;

    bool operator<(const Candidate& other) const {  // the top of a heap is the largest: ties to the lower id
      return gain != other.gain ? gain < other.gain : vertex > other.vertex;
    }
  };
  using Heap = std::priority_queue<Candidate>;

  bool improve_once();
  void move(std::uint32_t vertex);
  void offer(std::uint32_t vertex) { heaps_[sides_[vertex]].push({gains_[vertex], vertex}); }
  /// Brings the best candidate of the side to the top, past what is out of date or would make things worse.
  bool find_candidate(std::size_t side);
  double beyond_after(std::uint32_t vertex) const;
  double beyond(const std::array<std::int64_t, 2>& loads, const std::array<std::int64_t, 2>& bytes) const;
  bool at_boundary(std::uint32_t vertex) const;

  const CutGraph& graph_;
  const CutTargets& targets_;
  std::array<std::int64_t, 2> limits_{};  // of the loads
  std::vector<std::uint8_t> sides_;
  std::vector<std::int64_t> gains_;   // by how much the cut shrinks if the vertex moves
  std::vector<std::uint8_t> locked_;  // in this pass
  std::array<std::int64_t, 2> loads_{}, bytes_{};
  std::int64_t cut_ = 0;
  std::array<Heap, 2> heaps_;
};

}  // namespace trainyard
