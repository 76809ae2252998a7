#include "trainyard/place/list/dsc.hpp"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <utility>
#include <vector>

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/place/kit/predecessors.hpp"

namespace trainyard {
namespace {

class DominantSequence {
 public:
  DominantSequence(const Problem& problem, const MeanCosts& means, Checkpoint checkpoint)
      : problem_(problem), means_(means), checkpoint_(std::move(checkpoint)) {
    for (const OpId op : problem.ops()) find_only_successor(op);
  }

  DscClusters run() {
    for (const OpId op : problem_.ops())
      if (predecessors_.free(op)) free_.push({blevel_[op], op});
    while (!free_.empty()) {
      const Entry entry = free_.top();
      free_.pop();
      take(entry);
    }
    return numbered();
  }

 private:
  using Cluster = std::uint32_t;
  static constexpr Cluster kNoCluster = ~Cluster{0};

  /// A heap entry; the top has the highest priority, and the lowest id among equals.
  struct Entry {
    ScaledTime priority;
    OpId op;

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.op > b.op;
    }
  };
  struct Arrival {
    ScaledTime at;
    OpId from;
  };
  /// Number of predecessors of other clusters to move, by descending arrival, and the op's start then.
  struct Merge {
    std::size_t moved;
    ScaledTime start;
  };

  void for_successors(OpId op, auto each) const {  // (successor, mean transfer time)
    for (const TensorId tensor : graph_.outputs(op))
      for (const OpId reader : graph_.consumers(tensor)) each(reader, means_.mean(tensor));
    for (const OpId later : graph_.before(op)) each(later, ScaledTime{0});
  }
  void for_predecessors(OpId op, auto each) const {
    for (const TensorId tensor : graph_.inputs(op)) each(graph_.producer(tensor), means_.mean(tensor));
    for (const OpId earlier : graph_.after(op)) each(earlier, ScaledTime{0});
  }

  void find_only_successor(OpId op) {
    bool several = false;
    OpId& only = only_successor_[op];
    for_successors(op, [&](OpId successor, ScaledTime) {
      several |= !only.is_none() && only != successor;
      only = successor;
    });
    if (several) only = OpId::none();
  }

  void take(const Entry& entry) {
    const OpId op = entry.op;
    find_arrivals(op);
    checkpoint_(1 + arrivals_.size());
    const ScaledTime alone = arrivals_.empty() ? 0 : arrivals_.front().at;
    if (const Cluster bound = group_cluster_[problem_.group(op)]; bound != kNoCluster) {
      append(op, bound, std::max(end_of(bound), arrival_in(op, bound)));
      return release(op);
    }
    if (!arrivals_.empty()) {
      const Cluster cluster = cluster_[arrivals_.front().from];
      if (!kept_for_another(entry, cluster))
        if (const Merge merge = best_merge(op, cluster); merge.start < alone) {
          append_moved(merge.moved, cluster);
          append(op, cluster, merge.start);
          return release(op);
        }
    }
    last_.push_back(OpId::none());
    append(op, static_cast<Cluster>(last_.size() - 1), alone);
    release(op);
  }

  /// Sets arrivals_ to the last tensor to arrive from each predecessor, by descending arrival.
  void find_arrivals(OpId op) {
    arrivals_.clear();
    for_predecessors(op, [&](OpId from, ScaledTime crossing) {
      arrivals_.push_back({finish_[from] + crossing, from});
    });
    std::ranges::sort(arrivals_,
                      [](const Arrival& a, const Arrival& b) { return a.at != b.at ? a.at > b.at : a.from < b.from; });
    std::erase_if(arrivals_, [&](const Arrival& arrival) {
      const bool again = seen_by_[arrival.from] == op;
      seen_by_[arrival.from] = op;
      return again;
    });
  }

  ScaledTime end_of(Cluster cluster) const { return last_[cluster].is_none() ? 0 : finish_[last_[cluster]]; }

  /// The DSRW rule: whether the cluster could reduce the start of a partly free op of higher priority.
  bool kept_for_another(const Entry& entry, Cluster cluster) {
    while (!partly_free_.empty()) {
      const auto [priority, op] = partly_free_.top();
      if (!predecessors_.free(op) && priority == latest_[op].at + blevel_[op]) break;
      partly_free_.pop();  // free by now, or queued again with a higher priority
    }
    if (partly_free_.empty() || partly_free_.top().priority <= entry.priority) return false;
    const OpId op = partly_free_.top().op;
    if (cluster_[latest_[op].from] != cluster) return false;
    ScaledTime start = end_of(cluster);
    for_predecessors(op, [&](OpId from, ScaledTime crossing) {
      if (cluster_[from] != kNoCluster && cluster_[from] != cluster) start = std::max(start, finish_[from] + crossing);
    });
    return start < latest_[op].at;
  }

  /// The best merge into this cluster, which holds the predecessor whose tensor arrives last.
  Merge best_merge(OpId op, Cluster cluster) {
    std::erase_if(arrivals_, [&](const Arrival& arrival) { return cluster_[arrival.from] == cluster; });
    std::size_t movable = 0;
    while (movable < arrivals_.size() && may_move(arrivals_[movable].from, op)) ++movable;
    moves_.clear();
    for (std::size_t i = 0; i < movable; ++i)
      moves_.push_back({arrival_in(arrivals_[i].from, cluster), arrivals_[i].from});

    const auto rest = [&](std::size_t moved) { return moved < arrivals_.size() ? arrivals_[moved].at : ScaledTime{0}; };
    const auto start = [&](std::size_t moved) { return std::max(end_with(moved, cluster), rest(moved)); };
    // With more moves, the cluster ends later and the rest arrives earlier: the best number is where they cross.
    std::size_t low = 0, high = movable;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (end_with(middle, cluster) >= rest(middle))
        high = middle;
      else
        low = middle + 1;
    }
    Merge best{low, start(low)};
    if (low > 0)
      if (const ScaledTime fewer = start(low - 1); fewer <= best.start) best = {low - 1, fewer};
    return best;
  }

  bool may_move(OpId op, OpId with) const {
    return only_successor_[op] == with && problem_.group_ops(problem_.group(op)).size() == 1;
  }

  ScaledTime arrival_in(OpId op, Cluster cluster) const {
    ScaledTime latest = 0;
    for_predecessors(op, [&](OpId from, ScaledTime crossing) {
      latest = std::max(latest, finish_[from] + (cluster_[from] == cluster ? ScaledTime{0} : crossing));
    });
    return latest;
  }

  /// Sets sorted_ to the first `moved` moves, in the order in which they would run.
  void sort_moves(std::size_t moved) {
    sorted_.assign(moves_.begin(), moves_.begin() + static_cast<std::ptrdiff_t>(moved));
    std::ranges::sort(sorted_,
                      [](const Arrival& a, const Arrival& b) { return a.at != b.at ? a.at < b.at : a.from < b.from; });
  }

  ScaledTime end_with(std::size_t moved, Cluster cluster) {
    checkpoint_(1 + moved);
    sort_moves(moved);
    ScaledTime end = end_of(cluster);
    for (const auto& [at, op] : sorted_) end = std::max(end, at) + means_.mean(op);
    return end;
  }

  void append_moved(std::size_t moved, Cluster cluster) {
    sort_moves(moved);
    for (const auto& [at, op] : sorted_) {
      if (!after_[op].is_none()) before_[after_[op]] = before_[op];
      if (!before_[op].is_none()) after_[before_[op]] = after_[op];
      if (last_[cluster_[op]] == op) last_[cluster_[op]] = before_[op];
      append(op, cluster, std::max(end_of(cluster), at));
    }
  }

  void append(OpId op, Cluster cluster, ScaledTime start) {
    cluster_[op] = cluster;
    group_cluster_[problem_.group(op)] = cluster;
    start_[op] = start;
    finish_[op] = start + means_.mean(op);
    before_[op] = last_[cluster];
    after_[op] = OpId::none();
    if (!before_[op].is_none()) after_[before_[op]] = op;
    last_[cluster] = op;
  }

  void release(OpId op) {
    for_successors(op, [&](OpId successor, ScaledTime crossing) {
      Arrival& latest = latest_[successor];
      if (!latest.from.is_none() && latest.at >= finish_[op] + crossing) return;
      latest = {finish_[op] + crossing, op};
      partly_free_.push({latest.at + blevel_[successor], successor});
    });
    predecessors_.taken(op, [&](OpId successor) {
      free_.push({latest_[successor].at + blevel_[successor], successor});
    });
  }

  DscClusters numbered() const {
    DscClusters found{.of = IdMap<OpId, ClusterId>(problem_.op_count()), .start = start_};
    std::vector<ClusterId> number(last_.size());
    for (const OpId op : problem_.ops()) {
      if (number[cluster_[op]].is_none()) number[cluster_[op]] = ClusterId{found.count++};
      found.of[op] = number[cluster_[op]];
      found.makespan = std::max(found.makespan, finish_[op]);
    }
    return found;
  }

  const Problem& problem_;
  const Graph& graph_ = problem_.graph();
  const MeanCosts& means_;
  Checkpoint checkpoint_;
  IdMap<OpId, ScaledTime> blevel_{upward_ranks(problem_, means_)};
  Predecessors predecessors_{graph_};
  IdMap<OpId, OpId> only_successor_{problem_.op_count()};  // none: several, or no successor
  IdMap<OpId, Arrival> latest_{problem_.op_count()};       // from the predecessors taken so far
  IdMap<OpId, OpId> seen_by_{problem_.op_count()};
  std::priority_queue<Entry> free_, partly_free_;
  IdMap<OpId, Cluster> cluster_{problem_.op_count(), kNoCluster};
  IdMap<GroupId, Cluster> group_cluster_{problem_.group_count(), kNoCluster};
  std::vector<OpId> last_;  // last op, by cluster
  IdMap<OpId, ScaledTime> start_{problem_.op_count()}, finish_{problem_.op_count()};
  IdMap<OpId, OpId> before_{problem_.op_count()}, after_{problem_.op_count()};  // its neighbours in its cluster
  std::vector<Arrival> arrivals_, moves_, sorted_;
};

}  // namespace

DscClusters dsc_clusters(const Problem& problem, const MeanCosts& means, Checkpoint checkpoint) {
  return DominantSequence{problem, means, std::move(checkpoint)}.run();
}

Schedule dsc(const Problem& problem, const DscOptions& options) {
  const MeanCosts means{problem};
  const DscClusters found = dsc_clusters(problem, means, Checkpoint{options.stop});
  const CompressedRows<ClusterId, GroupId> clusters = groups_by_cluster(problem, found.count, found.of);
  const std::vector<OpId> order = by_descending_rank(problem, upward_ranks(problem, means));
  return list_schedule(problem, {options.insertion, options.order, options.stop}, [&](AnalyticPlan& plan) {
    map_clusters(problem, clusters, order, options.mapping, plan);
    return order;
  });
}

}  // namespace trainyard
