#include "trainyard/place/baechi/m_favourites.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <utility>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/solve/linear_program.hpp"

namespace trainyard {
namespace {

/// An edge of the program, on paths from the first node, before every op, to the last, after every op. It takes `base`,
/// and `cost` in addition unless it is relieved (x = 0). `parent` and `child`, in whose sums it counts, stay the same
/// when nodes are merged.
struct Arc {
  std::uint32_t from, to;
  ScaledTime base, cost;
  EdgeId edge;  // none: cannot be relieved
  std::uint32_t parent, child;
};

/// Limit on the work of the simplex method over all parts: some seconds.
constexpr std::uint64_t kMostWork = 1'500'000'000;

/// Share of the seconds after which the rest of the program is left unsolved, since the plan takes time too.
constexpr double kProgramShare = 0.5;

using Block = std::vector<Arc>;  // by ascending (from, to)

/// Longest paths over a block, without costs and with all of them (full_).
struct Lengths {
  std::vector<std::uint32_t> nodes;                          // ascending, the first and the last are on every path
  std::vector<ScaledTime> head, tail, full_head, full_tail;  // by position in nodes

  explicit Lengths(const Block& block) {
    for (const Arc& arc : block) {
      nodes.push_back(arc.from);
      nodes.push_back(arc.to);
    }
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    for (auto* lengths : {&head, &tail, &full_head, &full_tail}) lengths->assign(nodes.size(), 0);
    for (const Arc& arc : block) {
      const std::size_t u = at(arc.from), v = at(arc.to);
      head[v] = std::max(head[v], head[u] + arc.base);
      full_head[v] = std::max(full_head[v], full_head[u] + arc.base + arc.cost);
    }
    for (auto arc = block.rbegin(); arc != block.rend(); ++arc) {
      const std::size_t u = at(arc->from), v = at(arc->to);
      tail[u] = std::max(tail[u], tail[v] + arc->base);
      full_tail[u] = std::max(full_tail[u], full_tail[v] + arc->base + arc->cost);
    }
  }
  std::size_t at(std::uint32_t node) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(nodes, node) - nodes.begin());
  }
  ScaledTime longest() const { return head.back(); }
};

class Relaxation {
 public:
  Relaxation(const Problem& problem, const OpEdges& edges, LinearSolver solver, std::size_t most_pivots,
             const Effort& effort)
      : edges_(edges),
        means_(problem),
        solver_(solver),
        most_pivots_(most_pivots),
        effort_(effort),
        cost_(edges.size()) {
    for (std::size_t e = 0; e < edges.size(); ++e)
      for (const TensorId tensor : edges.tensors(EdgeId{e})) cost_[EdgeId{e}] += means_.mean(tensor);
    order_ = edges.fifo_order();
    result_.x = IdMap<EdgeId, double>(edges.size(), 1.0);
  }

  RelaxedFavourites run() {
    std::vector<Block> waiting{whole()};
    while (!waiting.empty()) {
      Block block = std::move(waiting.back());
      waiting.pop_back();
      simplify(block);
      if (block.empty()) continue;
      if (!cut(block, waiting)) solve(block);
    }
    const double solved = to_ns(longest(result_.x));
    relieve_the_rest();
    result_.value = to_ns(longest(result_.x));
    result_.bound = missed_ == 0 ? result_.value : solved - missed_;
    return std::move(result_);
  }

 private:
  double to_ns(double scaled) const { return scaled / static_cast<double>(means_.scale()); }

  Block whole() const {
    const auto ops = static_cast<std::uint32_t>(order_.size());
    IdMap<OpId, std::uint32_t> node(order_.size());
    for (std::uint32_t i = 0; i < ops; ++i) node[order_[i]] = i + 1;
    Block block;
    for (const OpId op : order_) {
      const std::uint32_t at = node[op];
      if (edges_.into(op).empty()) block.push_back({0, at, 0, 0, EdgeId::none(), 0, 0});
      if (edges_.out_of(op).empty()) block.push_back({at, ops + 1, means_.mean(op), 0, EdgeId::none(), 0, 0});
      for (const EdgeId edge : edges_.out_of(op))
        block.push_back({at, node[edges_.to(edge)], means_.mean(op), cost_[edge], edge, at, node[edges_.to(edge)]});
    }
    std::ranges::sort(block, {}, [](const Arc& arc) { return std::pair{arc.from, arc.to}; });
    return block;
  }

  /// Applies the first two rules until neither changes anything.
  void simplify(Block& block) {
    for (bool changed = true; changed && !block.empty();) {
      const Lengths lengths{block};
      std::erase_if(block, [&](const Arc& arc) {
        return lengths.full_head[lengths.at(arc.from)] + arc.base + arc.cost + lengths.full_tail[lengths.at(arc.to)] <=
               lengths.longest();
      });
      changed = relieve_lone(block);
    }
  }

  bool relieve_lone(Block& block) {
    children_.resize(order_.size() + 1);
    parents_.resize(order_.size() + 1);
    for (const Arc& arc : block) children_[arc.parent] = parents_[arc.child] = 0;
    for (const Arc& arc : block)
      if (arc.cost > 0) ++children_[arc.parent], ++parents_[arc.child];
    bool changed = false;
    for (Arc& arc : block) {
      if (arc.cost == 0 || children_[arc.parent] != 1 || parents_[arc.child] != 1) continue;
      result_.x[arc.edge] = 0;
      arc.cost = 0;
      changed = true;
    }
    return changed;
  }

  /// Cuts the block at the nodes that every path passes. Returns false if there is none inside.
  static bool cut(const Block& block, std::vector<Block>& parts) {
    std::vector<Block> found(1);
    std::uint32_t reach = block.front().from;
    for (const Arc& arc : block) {
      if (arc.from == reach && !found.back().empty()) found.emplace_back();
      reach = std::max(reach, arc.to);
      found.back().push_back(arc);
    }
    assert(reach == std::ranges::max_element(block, {}, &Arc::to)->to);
    if (found.size() == 1) return false;
    std::ranges::move(found, std::back_inserter(parts));
    return true;
  }

  /// Applies the last rule.
  static void contract(Block& block) {
    const std::uint32_t first = block.front().from, last = std::ranges::max_element(block, {}, &Arc::to)->to;
    struct Node {
      std::uint32_t in = 0, out = 0, onto = 0;  // onto: the node that it is merged into
      ScaledTime shift = 0;                     // how much later, or earlier, that node is
      bool gone = false, kept = false;
    };
    std::vector<Node> nodes;
    for (bool changed = true; changed;) {
      changed = false;
      nodes.assign(last - first + 1, {});
      for (const Arc& arc : block) ++nodes[arc.from - first].out, ++nodes[arc.to - first].in;
      std::erase_if(block, [&](const Arc& arc) {
        Node& from = nodes[arc.from - first];
        Node& to = nodes[arc.to - first];
        if (arc.cost != 0 || from.gone || to.gone) return false;
        const bool forward = arc.to != last && to.in == 1 && !to.kept;
        if (!forward && (arc.from == first || from.out != 1 || from.kept)) return false;
        Node& gone = forward ? to : from;
        (forward ? from : to).kept = true;
        gone.gone = true;
        gone.shift = arc.base;
        gone.onto = forward ? arc.from : arc.to;
        return changed = true;
      });
      for (Arc& arc : block) {
        const Node& from = nodes[arc.from - first];
        const Node& to = nodes[arc.to - first];
        if (from.gone) arc.base += from.shift, arc.from = from.onto;
        if (to.gone) arc.base += to.shift, arc.to = to.onto;
      }
      sort_by(block, [](const Arc& arc) { return std::pair{arc.from, arc.to}; });
    }
  }

  /// Solves for t, how much earlier each node is than with all costs, so that 0 is feasible. With y = 1 - x:
  ///
  ///     maximize t(last);  t(to) - t(from) - cost y <= full head(to) - full head(from) - base - cost;
  ///     sums of y <= 1;  t(last) <= full head(last) - longest;   all divided by the largest cost
  void solve(Block& block) {
    contract(block);
    const Lengths lengths{block};
    const auto unit = static_cast<double>(std::ranges::max_element(block, {}, &Arc::cost)->cost);
    const auto scaled = [&](ScaledTime time) { return static_cast<double>(time) / unit; };
    const double most = scaled(lengths.full_head.back() - lengths.longest());
    if (effort_.late(kProgramShare)) {
      missed_ += to_ns(most * unit);
      return;
    }

    LinearProgram program;
    constexpr double kInfinity = LinearProgram::kInfinity;
    for (std::size_t n = 0; n < lengths.nodes.size(); ++n) {
      const bool last = n + 1 == lengths.nodes.size();
      program.add_column(last ? -1 : 0, 0, n == 0 ? 0 : last ? most : kInfinity);
    }
    std::vector<std::uint32_t> column(block.size(), 0);
    std::vector<LinearProgram::Term> terms;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> by_parent, by_child;
    for (std::size_t a = 0; a < block.size(); ++a) {
      const Arc& arc = block[a];
      const std::size_t u = lengths.at(arc.from), v = lengths.at(arc.to);
      terms = {{static_cast<std::uint32_t>(v), 1.0}, {static_cast<std::uint32_t>(u), -1.0}};
      if (arc.cost > 0) {
        column[a] = program.add_column(0, 0, 1);
        terms.push_back({column[a], -scaled(arc.cost)});
        by_parent.emplace_back(arc.parent, column[a]);
        by_child.emplace_back(arc.child, column[a]);
      }
      program.add_row(-kInfinity, scaled(lengths.full_head[v] - lengths.full_head[u] - arc.base - arc.cost), terms);
    }
    for (auto* members : {&by_parent, &by_child}) {
      std::ranges::sort(*members);
      for (std::size_t first = 0, end; first < members->size(); first = end) {
        terms.clear();
        for (end = first; end < members->size() && (*members)[end].first == (*members)[first].first; ++end)
          terms.push_back({(*members)[end].second, 1.0});
        if (terms.size() > 1) program.add_row(-kInfinity, 1, terms);
      }
    }
    ++result_.blocks;
    result_.largest_block = std::max(result_.largest_block, program.rows());

    const bool clp = solver_ == LinearSolver::clp || (solver_ == LinearSolver::best && has_clp());
    const LinearSolution solution =
        clp ? solve_by_clp(program, [this] { return effort_.late(kProgramShare); })
            : solve_by_simplex(program, {.most_pivots = most_pivots_, .most_work = work_left_});
    work_left_ -= std::min(work_left_, solution.work);
    if (solution.status != LinearSolution::Status::optimal) missed_ += to_ns((most + solution.value) * unit);
    if (!solution.feasible) return;
    for (std::size_t a = 0; a < block.size(); ++a)
      if (block[a].cost > 0) result_.x[block[a].edge] = 1 - std::clamp(solution.x[column[a]], 0.0, 1.0);
  }

  double longest(const IdMap<EdgeId, double>& x) const {
    IdMap<OpId, double> start(order_.size(), 0.0);
    double end = 0;
    for (const OpId op : order_) {
      const double done = start[op] + static_cast<double>(means_.mean(op));
      end = std::max(end, done);
      for (const EdgeId edge : edges_.out_of(op)) {
        double& later = start[edges_.to(edge)];
        later = std::max(later, done + static_cast<double>(cost_[edge]) * x[edge]);
      }
    }
    return end;
  }

  void relieve_the_rest() {
    IdMap<OpId, double> children(order_.size(), 1.0), parents(order_.size(), 1.0);  // room in the sums
    std::vector<EdgeId> by_cost;
    for (const EdgeId edge : cost_.ids()) {
      children[edges_.from(edge)] -= 1 - result_.x[edge];
      parents[edges_.to(edge)] -= 1 - result_.x[edge];
      if (cost_[edge] > 0) by_cost.push_back(edge);
    }
    sort_by_descending(by_cost, [&](EdgeId edge) { return cost_[edge]; });
    for (const EdgeId edge : by_cost) {
      double& of_parent = children[edges_.from(edge)];
      double& of_child = parents[edges_.to(edge)];
      const double more = std::min({of_parent, of_child, result_.x[edge]});
      if (more <= 1e-9) continue;
      result_.x[edge] -= more;
      of_parent -= more;
      of_child -= more;
    }
  }

  const OpEdges& edges_;
  MeanCosts means_;
  LinearSolver solver_;
  std::size_t most_pivots_;
  const Effort& effort_;
  IdMap<EdgeId, ScaledTime> cost_;
  std::vector<OpId> order_;
  std::vector<std::uint32_t> children_, parents_;  // by node: number of edges with a cost
  RelaxedFavourites result_;
  std::uint64_t work_left_ = kMostWork;
  double missed_ = 0;  // ns that unsolved parts might still gain
};

}  // namespace

RelaxedFavourites relaxed_favourites(const Problem& problem, const OpEdges& edges, LinearSolver solver,
                                     std::size_t most_pivots, const Effort& effort) {
  return Relaxation{problem, edges, solver, most_pivots, effort}.run();
}

IdMap<OpId, OpId> favourite_children(const Problem& problem, const OpEdges& edges, const IdMap<EdgeId, double>& x,
                                     double threshold) {
  std::vector<EdgeId> by_x;
  for (const EdgeId edge : x.ids())
    if (x[edge] < threshold - 1e-9) by_x.push_back(edge);
  sort_by(by_x, [&](EdgeId edge) { return x[edge]; });
  IdMap<OpId, OpId> child(problem.op_count());
  IdMap<OpId, bool> taken(problem.op_count(), false);
  for (const EdgeId edge : by_x) {
    if (!child[edges.from(edge)].is_none() || taken[edges.to(edge)]) continue;
    child[edges.from(edge)] = edges.to(edge);
    taken[edges.to(edge)] = true;
  }
  return child;
}

}  // namespace trainyard
