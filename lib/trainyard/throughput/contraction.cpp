#include "trainyard/throughput/contraction.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "trainyard/core/disjoint_sets.hpp"
#include "trainyard/graph/strong_components.hpp"
#include "trainyard/graph/topological_order.hpp"

namespace trainyard {
namespace {

constexpr Picoseconds kNoTime{1000};  // threshold for a node without cost: 10^-6 ms, as in the authors' program

using EdgeSets = std::vector<std::set<std::size_t>>;

/// Builds the contraction on its forward nodes. Node i is initially color i.
class Contractor {
 public:
  explicit Contractor(const LoadProblem& problem) : problem_(problem) {}

  Contraction run(bool merging) {
    collect_edges();
    join_cycles();
    if (merging) merge_idle();
    return finish();
  }

 private:
  std::size_t color(OpId op) const { return problem_.op(op).color; }

  void collect_edges() {
    const std::size_t count = problem_.color_count();
    orphan_.assign(count, true);
    meets_backward_.assign(count, false);
    for (const OpId op : problem_.ops())
      if (!problem_.op(op).backward) orphan_[color(op)] = false;
    for (const TensorId id : problem_.tensors()) {
      const LoadTensor& tensor = problem_.tensor(id);
      const std::size_t from = color(tensor.producer);
      const bool from_backward = problem_.op(tensor.producer).backward;
      for (const OpId reader : tensor.consumers) {
        const std::size_t to = color(reader);
        const bool to_backward = problem_.op(reader).backward;
        if (from_backward != to_backward) meets_backward_[from_backward ? to : from] = true;
        if (from == to) continue;
        if (!from_backward && !to_backward) successors_[from].insert(to);
        if (from_backward && to_backward && (orphan_[from] || orphan_[to])) successors_[to].insert(from);
      }
    }
  }

  void join_cycles() {
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    for (std::size_t from = 0; from < successors_.size(); ++from)
      for (const std::size_t to : successors_[from]) edges.emplace_back(from, to);
    const std::vector<std::size_t> component = strong_components(successors_.size(), edges);
    std::vector<std::size_t> first(component.size(), component.size());
    for (std::size_t node = 0; node < component.size(); ++node) {
      std::size_t& with = first[component[node]];
      with = std::min(with, node);
      merged_.join(node, with);
    }
  }

  /// Predecessors and successors in the forward graph over the merged nodes.
  std::pair<EdgeSets, EdgeSets> merged_edges() {
    EdgeSets before(successors_.size()), after(successors_.size());
    for (std::size_t from = 0; from < successors_.size(); ++from)
      for (const std::size_t to : successors_[from])
        if (merged_.find(from) != merged_.find(to)) {
          after[merged_.find(from)].insert(merged_.find(to));
          before[merged_.find(to)].insert(merged_.find(from));
        }
    return {before, after};
  }

  void merge_idle() {
    auto [before, after] = merged_edges();
    const std::size_t count = successors_.size();
    std::vector<bool> idle(count, true);
    for (std::size_t node = 0; node < count; ++node)
      if (meets_backward_[node]) idle[merged_.find(node)] = false;
    std::vector<Picoseconds> forward(count * problem_.kind_count()), backward = forward;
    for (const OpId op : problem_.ops())
      for (const KindId kind : problem_.kinds()) {
        const std::size_t node = merged_.find(color(op)), at = node * problem_.kind_count() + kind.index();
        const Picoseconds time = problem_.time(op, kind);
        (problem_.op(op).backward ? backward : forward)[at] += time == kNeverLoad ? kNoTime : time;
      }
    for (std::size_t node = 0; node < count; ++node)
      for (const KindId kind : problem_.kinds()) {
        const std::size_t at = node * problem_.kind_count() + kind.index();
        if (forward[at] >= kNoTime || backward[at] >= kNoTime) idle[node] = false;
      }
    // A merge does not increase the time of any other node, so one queue of candidates is enough.
    std::set<std::size_t> candidates;
    for (std::size_t node = 0; node < count; ++node)
      if (merged_.find(node) == node) candidates.insert(node);
    while (!candidates.empty()) {
      const std::size_t node = *candidates.begin();
      candidates.erase(candidates.begin());
      std::set<std::size_t> around = before[node];
      around.insert(after[node].begin(), after[node].end());
      if (!idle[node] || around.size() != 1) continue;
      const std::size_t into = *around.begin();
      const std::size_t kept = std::min(node, into), gone = std::max(node, into);
      merged_.join(node, into);
      idle[kept] = idle[into];
      for (EdgeSets* edges : {&before, &after}) {
        (*edges)[into].erase(node);
        if (kept == into) continue;
        (*edges)[kept] = std::move((*edges)[into]);
        for (const std::size_t other : (*edges)[kept]) {
          auto& back = (edges == &before ? after : before)[other];
          back.erase(gone);
          back.insert(kept);
        }
      }
      candidates.erase(gone);
      candidates.insert(kept);
    }
  }

  Contraction finish() {
    auto [before, after] = merged_edges();
    const std::size_t count = successors_.size(), kinds = problem_.kind_count();
    std::vector<std::size_t> order = topological_order<std::size_t>(count, successors_in(after)), number(count, 0);
    std::erase_if(order, [&](std::size_t node) { return merged_.find(node) != node; });
    const std::size_t blocks = order.size();
    for (std::size_t block = 0; block < blocks; ++block) number[order[block]] = block;

    Contraction result{.ops = std::vector<std::vector<OpId>>(blocks)};
    std::vector<std::pair<BlockId, BlockId>> predecessors, successors;
    for (const std::size_t node : order) {
      std::vector<std::size_t> from, to;
      for (const std::size_t other : before[node]) from.push_back(number[other]);
      for (const std::size_t other : after[node]) to.push_back(number[other]);
      std::ranges::sort(from);
      std::ranges::sort(to);
      for (const std::size_t other : from) predecessors.emplace_back(BlockId{number[node]}, BlockId{other});
      for (const std::size_t other : to) successors.emplace_back(BlockId{number[node]}, BlockId{other});
    }
    result.predecessors = {blocks, predecessors};
    result.successors = {blocks, successors};
    result.forward.assign(blocks * kinds, Picoseconds{0});
    result.backward = result.forward;
    result.sizes.assign(blocks, Bytes{0});
    const auto block_of = [&](OpId op) { return number[merged_.find(color(op))]; };
    for (const OpId op : problem_.ops()) {
      const std::size_t block = block_of(op);
      result.ops[block].push_back(op);
      result.sizes[block] += problem_.op(op).size;
      for (const KindId kind : problem_.kinds()) {
        const std::size_t at = block * kinds + kind.index();
        const Picoseconds time = problem_.time(op, kind);
        if (result.forward[at] == kNeverLoad) continue;
        if (time == kNeverLoad)
          result.forward[at] = result.backward[at] = kNeverLoad;
        else
          (problem_.op(op).backward ? result.backward : result.forward)[at] += time;
      }
    }
    std::map<std::tuple<std::size_t, std::vector<std::size_t>, bool>, std::size_t> known;
    for (const TensorId id : problem_.tensors()) {
      const LoadTensor& tensor = problem_.tensor(id);
      const std::size_t from = block_of(tensor.producer);
      std::set<std::size_t> readers;
      for (const OpId reader : tensor.consumers) readers.insert(block_of(reader));
      readers.erase(from);
      const bool costless =
          std::ranges::all_of(problem_.kinds(), [&](KindId kind) { return problem_.cost(id, kind).count == 0; });
      if (readers.empty() || costless) continue;
      const bool backward = problem_.op(tensor.producer).backward;
      const std::vector<std::size_t> list(readers.begin(), readers.end());
      const auto [at, is_new] = known.try_emplace({from, list, backward}, result.tensors.size());
      if (is_new) {
        BlockTensor& added = result.tensors.emplace_back(BlockTensor{BlockId{from}, {}, backward});
        for (const std::size_t reader : list) added.consumers.emplace_back(reader);
        result.costs.resize(result.costs.size() + kinds);
      }
      for (const KindId kind : problem_.kinds())
        result.costs[at->second * kinds + kind.index()] += problem_.cost(id, kind);
    }
    return result;
  }

  const LoadProblem& problem_;
  DisjointSets merged_{problem_.color_count()};
  EdgeSets successors_{problem_.color_count()};  // of colors, in the forward graph
  std::vector<bool> orphan_;                     // the color has no forward op
  std::vector<bool> meets_backward_;             // an edge joins a forward op of the color and a backward op
};

}  // namespace

Contraction contract(const LoadProblem& problem, const ContractionOptions& options) {
  return Contractor{problem}.run(options.merge_idle);
}

LoadPlacement expand(const Contraction& contraction, const LoadProblem& problem,
                     const std::vector<DeviceId>& block_devices) {
  LoadPlacement placement(problem.op_count());
  for (std::size_t block = 0; block < contraction.size(); ++block)
    for (const OpId op : contraction.ops[block]) placement[op] = block_devices[block];
  return placement;
}

}  // namespace trainyard
