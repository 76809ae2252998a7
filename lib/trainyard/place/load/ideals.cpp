#include "trainyard/place/load/ideals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/effort.hpp"

namespace trainyard {
namespace {

/// Hash table of sets of blocks, stored as rows of words.
class SetTable {
 public:
  explicit SetTable(std::size_t members) : words_((members + 63) / 64), slots_(1024, kNone) {}

  std::size_t size() const { return words_ == 0 ? count_ : sets_.size() / words_; }
  const std::uint64_t* set(std::size_t index) const { return sets_.data() + index * words_; }
  std::size_t words() const { return words_; }

  /// Returns the set's index. A new set is appended.
  std::size_t insert(const std::vector<std::uint64_t>& set) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    std::size_t slot = slot_of(set.data());
    for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1))
      if (std::equal(set.begin(), set.end(), this->set(slots_[slot]))) return slots_[slot];
    slots_[slot] = static_cast<std::uint32_t>(count_);
    sets_.insert(sets_.end(), set.begin(), set.end());
    return count_++;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  std::size_t slot_of(const std::uint64_t* set) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
    for (std::size_t i = 0; i < words_; ++i) {
      hash = (hash ^ set[i]) * 0xbf58476d1ce4e5b9ULL;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash) & (slots_.size() - 1);
  }
  void grow() {
    slots_.assign(slots_.size() * 2, kNone);
    for (std::size_t i = 0; i < count_; ++i) {
      std::size_t slot = slot_of(set(i));
      while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::uint32_t>(i);
    }
  }

  std::size_t words_, count_ = 0;
  std::vector<std::uint64_t> sets_;
  std::vector<std::uint32_t> slots_;
};

}  // namespace

IdealLattice IdealLattice::all(const Contraction& blocks, std::size_t most, std::function<bool()> stop) {
  Checkpoint checkpoint{std::move(stop)};
  const std::size_t count = blocks.size();
  IdealLattice lattice;
  for (std::size_t i = 0; i < count; ++i) lattice.order_.emplace_back(i);  // blocks are in topological order

  SetTable sets{count};
  std::vector<std::uint64_t> current(sets.words(), 0);
  sets.insert(current);
  struct Edge {
    std::uint32_t to, rank, from;
  };
  std::vector<Edge> edges;
  const auto has = [&](std::size_t block) { return (current[block / 64] >> (block % 64) & 1) != 0; };
  // Breadth first, so ideals come by ascending size.
  for (std::size_t from = 0; from < sets.size(); ++from) {
    checkpoint(1 + count / 64);
    current.assign(sets.set(from), sets.set(from) + sets.words());
    for (std::size_t block = 0; block < count; ++block) {
      if (has(block)) continue;
      const auto before = blocks.predecessors[BlockId{block}];
      if (!std::ranges::all_of(before, [&](BlockId other) { return has(other.index()); })) continue;
      current[block / 64] |= std::uint64_t{1} << (block % 64);
      const std::size_t to = sets.insert(current);
      current[block / 64] &= ~(std::uint64_t{1} << (block % 64));
      edges.push_back(
          {static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(from)});
      if (sets.size() > most)
        refuse("too-many-ideals", fmt::format("the graph can be cut in more than {} places", most),
               "use placer 'dpl', which cuts along one order of the ops, or coarser layers, which have fewer places to "
               "cut");
    }
  }
  lattice.first_.assign(sets.size() + 1, 0);
  for (const Edge& edge : edges) ++lattice.first_[edge.to + 1];
  for (std::size_t i = 1; i < lattice.first_.size(); ++i) lattice.first_[i] += lattice.first_[i - 1];
  lattice.steps_.resize(edges.size());
  std::vector<std::uint32_t> next(lattice.first_.begin(), lattice.first_.end() - 1);
  for (const Edge& edge : edges) lattice.steps_[next[edge.to]++] = {edge.rank, edge.from};
  for (std::size_t i = 0; i < sets.size(); ++i)
    std::sort(lattice.steps_.begin() + lattice.first_[i], lattice.steps_.begin() + lattice.first_[i + 1],
              [](const Step& a, const Step& b) { return a.rank < b.rank; });
  return lattice;
}

IdealLattice IdealLattice::chain(std::vector<BlockId> order) {
  IdealLattice lattice;
  lattice.order_ = std::move(order);
  lattice.first_.assign(1, 0);
  lattice.first_.push_back(0);
  for (std::uint32_t i = 0; i < lattice.order_.size(); ++i) {
    lattice.steps_.push_back({i, i});
    lattice.first_.push_back(i + 1);
  }
  return lattice;
}

}  // namespace trainyard
