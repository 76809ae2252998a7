#include "trainyard/place/load/ideal_dp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/interval_load.hpp"

namespace trainyard {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr double kSlack = 1 + 1e-9;  // tolerance for bounds in doubles
/// Limit on the combinations of device counts of the kinds. Each ideal has up to one state for each.
constexpr std::uint64_t kMostStates = 100'000;

/// Numbers of devices of each kind, encoded as one integer.
class DeviceCounts {
 public:
  explicit DeviceCounts(const LoadProblem& problem) : strides_(problem.kind_count()) {
    std::uint64_t size = 1;
    for (std::size_t k = problem.kind_count(); k-- > 0;) {
      strides_[k] = static_cast<std::uint32_t>(size);
      most_.push_back(problem.devices_of(KindId{k}).size());
      size *= most_.back() + 1;
      if (size > kMostStates)
        refuse("too-many-kinds",
               fmt::format("the devices of {} kinds can be combined in more than {} ways", problem.kind_count(),
                           kMostStates),
               "use placer 'load-search', which accepts any number of kinds");
    }
    size_ = static_cast<std::uint32_t>(size);
    std::ranges::reverse(most_);
  }
  std::uint32_t size() const { return size_; }
  std::uint32_t stride(std::size_t kind) const { return strides_[kind]; }
  std::size_t most(std::size_t kind) const { return most_[kind]; }
  std::size_t count(std::uint32_t state, std::size_t kind) const { return state / strides_[kind] % (most_[kind] + 1); }
  bool within(std::uint32_t few, std::uint32_t many) const {
    for (std::size_t k = 0; k < most_.size(); ++k)
      if (count(few, k) > count(many, k)) return false;
    return true;
  }

 private:
  std::uint32_t size_ = 1;
  std::vector<std::uint32_t> strides_;
  std::vector<std::size_t> most_;
};

class IdealDp {
 public:
  IdealDp(const LoadProblem& problem, const Contraction& blocks, const IdealLattice& lattice,
          const SplitOptions& options)
      : problem_(problem),
        lattice_(lattice),
        options_(options),
        counts_(problem),
        interval_(problem, blocks, lattice),
        limit_(options.table ? kInfiniteLoad : options.limit),
        first_entry_(lattice.size() + 1, 0),
        best_(counts_.size()),
        from_(counts_.size()) {
    measure_work(blocks);
  }

  Split run() {
    entries_.push_back({.state = 0, .value = Picoseconds{0}});
    first_entry_[1] = 1;
    Checkpoint checkpoint{options_.stop};
    for (std::uint32_t ideal = 1; ideal < lattice_.size(); ++ideal) {
      checkpoint();
      solve(ideal);
    }
    return result();
  }

 private:
  struct Origin {
    std::uint32_t ideal = kNone, entry = kNone;  // state that the part was added to
    std::uint16_t kind = 0, replicas = 0;
    Picoseconds load{};
  };
  /// The best split of an ideal onto these devices.
  struct Entry {
    std::uint32_t state;
    Picoseconds value;
    Origin from = {};
  };
  struct Frame {
    std::uint32_t ideal, step, rank;
  };

  /// Computes a lower bound on the work in every ideal, in device time of the first kind. For any weights of the kinds,
  /// devices can do at most the sum of their weights times t within a time t.
  void measure_work(const Contraction& blocks) {
    const std::size_t kinds = problem_.kind_count();
    std::vector<double> weights(kinds, 1.0);
    const auto time = [&](std::size_t block, std::size_t kind) {
      const Picoseconds forward = blocks.forward[block * kinds + kind];
      return forward == kNeverLoad ? -1.0
                                   : static_cast<double>((forward + blocks.backward[block * kinds + kind]).count);
    };
    for (std::size_t k = 1; k < kinds; ++k) {
      double here = 0, first = 0;
      for (std::size_t block = 0; block < blocks.size(); ++block) {
        if (time(block, 0) < 0 || time(block, k) < 0) continue;
        first += time(block, 0);
        here += time(block, k);
      }
      if (here > 0 && first > 0) weights[k] = first / here;
    }
    std::vector<double> work(blocks.size(), 0);
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      double least = -1;
      for (std::size_t k = 0; k < kinds; ++k) {
        if (time(block, k) < 0 || counts_.most(k) == 0) continue;
        const double share = weights[k] * time(block, k);
        least = least < 0 ? share : std::min(least, share);
      }
      work[block] = std::max(least, 0.0);
    }
    work_.assign(lattice_.size(), 0);
    for (std::size_t ideal = 1; ideal < lattice_.size(); ++ideal) {
      const IdealLattice::Step step = lattice_.steps(ideal).front();
      work_[ideal] = work_[step.ideal] + work[lattice_.block(step.rank).index()];
    }
    capacity_.assign(counts_.size(), 0);
    for (std::uint32_t state = 0; state < counts_.size(); ++state)
      for (std::size_t k = 0; k < kinds; ++k)
        capacity_[state] += weights[k] * static_cast<double>(counts_.count(state, k));
  }

  /// Finds the states that can have done the ideal's work and leave enough devices for the rest.
  void find_useful(std::uint32_t ideal) {
    useful_.assign(counts_.size(), 0);
    const double all = capacity_.back(), limit = static_cast<double>(limit_.count) * kSlack;
    for (std::uint32_t state = 1; state < counts_.size(); ++state) {
      if (limit_ != kInfiniteLoad && (work_[ideal] > capacity_[state] * limit ||
                                      work_.back() - work_[ideal] * kSlack > (all - capacity_[state]) * limit))
        continue;
      useful_[state] = 1;
      best_[state] = limit_ == kInfiniteLoad ? kInfiniteLoad : limit_ + Picoseconds{1};
      from_[state] = {};
    }
  }

  void find_cap() {
    Picoseconds cap{0};
    for (std::uint32_t state = 1; state < counts_.size(); ++state)
      if (useful_[state] != 0) cap = std::max(cap, best_[state]);
    interval_.set_cap(cap, options_.replication.most);
  }

  void solve(std::uint32_t ideal) {
    find_useful(ideal);
    find_cap();
    frames_.assign(1, {ideal, 0, kNone});
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      const auto steps = lattice_.steps(frame.ideal);
      if (frame.step < steps.size() && steps[frame.step].rank < frame.rank) {
        const IdealLattice::Step step = steps[frame.step++];
        ++pairs_;
        interval_.add(step.rank);
        if (!interval_.worthwhile()) {
          interval_.remove(step.rank);
          continue;
        }
        relax(step.ideal);
        frames_.push_back({step.ideal, 0, step.rank});
        continue;
      }
      if (frame.rank != kNone) interval_.remove(frame.rank);
      frames_.pop_back();
    }
    keep(ideal);
  }

  /// Adds the interval's blocks as one part, on each kind of device, to the best states of the ideal `before`.
  void relax(std::uint32_t before) {
    bool improved = false;
    for (std::uint16_t kind = 0; kind < problem_.kind_count(); ++kind) {
      if (!interval_.fits(kind)) continue;
      const Picoseconds whole = interval_.load(kind, options_.sum);
      const auto most = static_cast<std::uint16_t>(std::min(options_.replication.most, counts_.most(kind)));
      for (std::uint16_t replicas = 1; replicas <= most; ++replicas) {
        const Picoseconds load =
            replicas == 1 ? whole : replicated_load(whole, interval_.size(), replicas, options_.replication.bandwidth);
        if (load > limit_) continue;
        for (std::uint32_t at = first_entry_[before]; at < first_entry_[before + 1]; ++at) {
          const Entry& entry = entries_[at];
          if (counts_.count(entry.state, kind) + replicas > counts_.most(kind)) continue;
          const std::uint32_t state = entry.state + replicas * counts_.stride(kind);
          const Picoseconds value = std::max(entry.value, load);
          if (useful_[state] == 0 || value >= best_[state]) continue;
          best_[state] = value;
          from_[state] = {before, at, kind, replicas, load};
          improved = true;
        }
      }
    }
    if (improved) find_cap();
  }

  /// Stores the states that are not dominated.
  void keep(std::uint32_t ideal) {
    const auto first = static_cast<std::uint32_t>(entries_.size());
    for (std::uint32_t state = 1; state < counts_.size(); ++state) {
      if (useful_[state] == 0 || from_[state].ideal == kNone) continue;
      // Fewer devices of each kind make a smaller number, so a dominating state is stored before this one.
      bool superfluous = false;
      for (std::size_t at = first; at < entries_.size() && !superfluous; ++at)
        superfluous = entries_[at].value <= best_[state] && counts_.within(entries_[at].state, state);
      if (!superfluous) entries_.push_back({state, best_[state], from_[state]});
    }
    first_entry_[ideal + 1] = static_cast<std::uint32_t>(entries_.size());
  }

  Split result() const {
    const auto last = static_cast<std::uint32_t>(lattice_.size() - 1);
    Split split{.ideals = lattice_.size(), .pairs = pairs_};
    std::uint32_t best = kNone;
    for (std::uint32_t at = first_entry_[last]; at < first_entry_[last + 1]; ++at)
      if (best == kNone || entries_[at].value < entries_[best].value) best = at;
    if (options_.table) {
      split.table.assign(counts_.size(), kInfiniteLoad);
      for (std::uint32_t state = 0; state < counts_.size(); ++state)
        for (std::uint32_t at = first_entry_[last]; at < first_entry_[last + 1]; ++at)
          if (counts_.within(entries_[at].state, state))
            split.table[state] = std::min(split.table[state], entries_[at].value);
    }
    if (best == kNone) return split;
    split.value = entries_[best].value;
    std::uint32_t ideal = last;
    for (std::uint32_t at = best; ideal != 0;) {
      const Origin& from = entries_[at].from;
      SplitPart part{.kind = KindId{from.kind}, .replicas = from.replicas, .blocks = {}, .load = from.load};
      part.blocks = blocks_between(from.ideal, ideal);
      split.parts.push_back(std::move(part));
      ideal = from.ideal;
      at = from.entry;
    }
    std::ranges::reverse(split.parts);
    return split;
  }

  std::vector<bool> members(std::uint32_t ideal) const {
    std::vector<bool> in(lattice_.block_count(), false);
    while (ideal != 0) {
      const IdealLattice::Step step = lattice_.steps(ideal).front();
      in[lattice_.block(step.rank).index()] = true;
      ideal = step.ideal;
    }
    return in;
  }
  std::vector<BlockId> blocks_between(std::uint32_t small, std::uint32_t large) const {
    const std::vector<bool> before = members(small), all = members(large);
    std::vector<BlockId> blocks;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] && !before[i]) blocks.emplace_back(i);
    return blocks;
  }

  const LoadProblem& problem_;
  const IdealLattice& lattice_;
  const SplitOptions& options_;
  DeviceCounts counts_;
  IntervalLoad interval_;
  Picoseconds limit_;
  std::vector<double> work_, capacity_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> first_entry_;  // of each ideal, into entries_
  std::vector<std::uint8_t> useful_;
  std::vector<Picoseconds> best_;
  std::vector<Origin> from_;
  std::vector<Frame> frames_;
  std::uint64_t pairs_ = 0;
};

}  // namespace

Split best_split(const LoadProblem& problem, const Contraction& blocks, const IdealLattice& lattice,
                 const SplitOptions& options) {
  return IdealDp{problem, blocks, lattice, options}.run();
}

Split ideal_split(const LoadProblem& problem, const Contraction& blocks, const SplitOptions& options) {
  const IdealLattice lattice = IdealLattice::all(blocks, options.most_ideals, options.stop);
  SplitOptions within = options;
  if (!options.table) within.limit = std::min(options.limit, dpl(problem, blocks, options).value);
  return best_split(problem, blocks, lattice, within);
}

}  // namespace trainyard
