#include "trainyard/rewrite/apply_rewrites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/offload.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/recompute.hpp"
#include "trainyard/rewrite/split_op.hpp"
#include "trainyard/rewrite/stage_meshes.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"
#include "trainyard/rewrite/tied_copies.hpp"

namespace trainyard {
namespace {

std::string pointer_to(std::size_t number) { return fmt::format("/splits/{}", number); }

[[noreturn]] void refuse_at(std::size_t number, std::string code, std::string message, std::string help) {
  refuse(code, std::move(message), help, pointer_to(number));
}

/// Number of ops, and of their inputs and dependencies. In double, which does not overflow.
struct Size {
  double ops = 0, reads = 0;
};

Size size_of(const Graph& graph) {
  Size size{.ops = static_cast<double>(graph.op_count())};
  for (const OpId op : graph.ops()) size.reads += static_cast<double>(graph.inputs(op).size() + graph.after(op).size());
  return size;
}

/// Upper bound on the mean number of ops per rank in an all-reduce of n ranks.
double ops_of_all_reduce(Collective collective, double n, double per_node) {
  switch (collective) {
    case Collective::parameter_server:
      return 0;
    case Collective::ring:
      return 2 * n + 2;
    case Collective::halving_doubling:
      return 3 * std::log2(n) + 2;
    case Collective::tree:
      return 6;
    case Collective::hierarchical:
      return 2 * per_node + 2 * n / std::max(1.0, per_node) + 4;
    case Collective::whole:
      return 4;
  }
  return 0;
}

/// Upper bound on the size of the graph after a rewrite that splits no op.
Size size_after(const Graph& graph, const Rewrite& rewrite) {
  const auto [ops, reads] = size_of(graph);
  double gradients = 0, bytes = 0;
  for (const OpId op : graph.ops()) {
    if (graph.phase(op) != Phase::update) continue;
    for (const TensorId tensor : graph.inputs(op)) {
      if (graph.phase(graph.producer(tensor)) == Phase::update) continue;
      ++gradients;
      bytes += static_cast<double>(graph.bytes(tensor).count);
    }
  }
  if (const auto* batch = std::get_if<Microbatch>(&rewrite)) {
    const auto n = static_cast<double>(batch->parts);
    Size once;  // updates and their inputs
    for (const OpId op : graph.ops()) {
      if (graph.phase(op) != Phase::update) continue;
      ++once.ops;
      once.reads += static_cast<double>(graph.inputs(op).size());
    }
    return {n * (ops - once.ops + gradients) + once.ops, n * (reads - once.reads + 2 * gradients) + once.reads};
  }
  if (const auto* parallel = std::get_if<TensorParallel>(&rewrite)) {
    // A tensor has at most one converting collective in each pass. In transformers, a quarter of the ops have one.
    const auto n = parallel->fold > 0 ? 1.5 : static_cast<double>(parallel->ranks);
    const double each = n == 1 ? 0 : n * ops_of_all_reduce(parallel->collective, n, 1) / 4;
    return {n * ops + ops * each, n * reads + 2 * ops * each};
  }
  const auto* replicate = std::get_if<Replicate>(&rewrite);
  if (!replicate) return {2 * ops, 3 * reads};
  const auto n = static_cast<double>(replicate->fold > 0 ? replicate->classes.size() : replicate->replicas);
  if (replicate->collective == Collective::parameter_server)
    return {(n + 2) * ops, (n + 1) * (reads + gradients + ops)};
  const double buckets = std::min(gradients, 1 + bytes / std::max(1.0, static_cast<double>(replicate->bucket.count)));
  const double each = buckets * ops_of_all_reduce(replicate->collective, n, static_cast<double>(replicate->per_node));
  double exchanges = 0, of_rows = 0;  // 4 per mixture of experts; 4 per attention, in a ring per step
  const auto c = static_cast<double>(replicate->context);
  for (const OpId op : graph.ops()) {
    if (replicate->experts > 1 && graph.type(op) == "ExpertDispatch") exchanges += 4;
    if (c > 1 && graph.type(op).starts_with("Attention"))
      of_rows += replicate->exchange == ContextExchange::ring ? 4 * c : 4;
  }
  const bool gathers = replicate->exchange == ContextExchange::all_gather && replicate->collective != Collective::whole;
  const double ops_of_rows = of_rows * (gathers ? c + 2 : 5);
  const double shards = replicate->zero == 1 ? n * gradients : 0;  // the others' shares, which updates hold
  return {n * (ops + (replicate->zero == 3 ? 1.5 : 1) * each + 3 * exchanges + ops_of_rows),
          n * (reads + gradients + shards + 3 * each + exchanges * (2 + static_cast<double>(replicate->experts)) +
               3 * ops_of_rows + c * of_rows)};
}

/// Predicted size of the graphs that all rewrites together make. Its limit is 8 times the given graph plus a constant,
/// or kRewrittenTimes times the graph up to a second constant if that is more (core/limits.hpp).
class MadeSoFar {
 public:
  explicit MadeSoFar(const Graph& graph) : most_(size_of(graph)) {
    const auto most = [](double given, std::size_t small, std::size_t large) {
      constexpr double kMostGrowth = 8;
      return std::max(kMostGrowth * given + static_cast<double>(small),
                      std::min(static_cast<double>(limits::kRewrittenTimes) * given, static_cast<double>(large)));
    };
    most_ = {most(most_.ops, limits::kRewrittenOps, limits::kMostRewrittenOps),
             most(most_.reads, limits::kRewrittenReads, limits::kMostRewrittenReads)};
  }

  void add(const Size& size, std::size_t number) {
    made_.ops += size.ops;
    made_.reads += size.reads;
    if (made_.ops <= most_.ops && made_.reads <= most_.reads) return;
    refuse_at(
        number, "too-large",
        fmt::format("the rewrites make {:.0f} ops that read {:.0f} tensors, which is too many", made_.ops, made_.reads),
        fmt::format("this graph may become {:.0f} ops and {:.0f} reads: ask for fewer parts, replicas or microbatches, "
                    "or for larger buckets",
                    most_.ops, most_.reads));
  }

 private:
  Size most_, made_;
};

/// Splits of different ops of one graph. They do not affect each other and are applied together.
class PendingSplits {
 public:
  PendingSplits(const Graph& graph, MadeSoFar& made, Checkpoint& checkpoint)
      : graph_(&graph), index_(graph), made_(&made), checkpoint_(&checkpoint) {}

  bool empty() const { return parts_.empty(); }
  bool has(const std::string& op) const { return index_.find(op) && !parts_.contains(op); }

  void add(const SplitOp& split, std::size_t number) {
    const OpId op = index_.at(split.op, pointer_to(number));
    const double parts = static_cast<double>(split.parts);
    made_->add({parts, parts * static_cast<double>(graph_->inputs(op).size() + graph_->outputs(op).size())}, number);
    std::vector<OpSpec> specs;
    if (split.parts >= 2) specs = split_op_specs(*graph_, op, split.dimension, split.parts);
    if (specs.empty())
      refuse_at(number, "unsplittable",
                fmt::format("op '{}' of type '{}' cannot be split in {} along its {} dimension", split.op,
                            graph_->type(op), split.parts, name_of(split.dimension)),
                "split convolutions, matrix products and their gradients, into at most as many parts as the dimension "
                "is long");
    parts_.emplace(split.op, split.parts);
    by_.emplace(op, std::move(specs));
  }

  /// `number`: of the last rewrite, for errors.
  Graph made(std::size_t number) const {
    if (empty()) return *graph_;
    made_->add({static_cast<double>(graph_->op_count()), reads()}, number);
    GraphBuilder builder{graph_->name()};
    for (const OpId op : graph_->ops()) {
      (*checkpoint_)(copies(op));
      const auto at = by_.find(op);
      if (at == by_.end()) {
        add_after_parts(spec_of(*graph_, op), builder);
        continue;
      }
      for (const OpSpec& spec : at->second) add_after_parts(spec, builder);
    }
    return std::move(builder).build();
  }

 private:
  /// Number of inputs and dependencies of the parts and the other ops.
  double reads() const {
    double all = 0;
    for (const OpId op : graph_->ops()) {
      std::size_t waits = graph_->inputs(op).size();
      for (const OpId earlier : graph_->after(op)) waits += copies(earlier);
      all += static_cast<double>(waits) * static_cast<double>(copies(op));
    }
    return all;
  }
  std::size_t copies(OpId op) const {
    const auto at = by_.find(op);
    return at == by_.end() ? 1 : at->second.size();
  }

  /// An op that came after a split op comes after all its parts.
  void add_after_parts(OpSpec spec, GraphBuilder& builder) const {
    std::vector<std::string> after;
    for (std::string& earlier : spec.after) {
      const auto at = parts_.find(earlier);
      if (at == parts_.end()) {
        after.push_back(std::move(earlier));
        continue;
      }
      for (std::size_t p = 0; p < at->second; ++p) after.push_back(fmt::format("{}/part{}", earlier, p));
    }
    spec.after = std::move(after);
    builder.add(spec);
  }

  const Graph* graph_;
  OpIndex index_;
  MadeSoFar* made_;
  Checkpoint* checkpoint_;
  std::map<std::string, std::size_t> parts_;
  std::map<OpId, std::vector<OpSpec>> by_;
};

struct Segments {
  std::vector<std::vector<OpId>> ops, also;
};
/// The segments of the consecutive Recompute rewrites from `number` on. Moves `number` to the last of them.
Segments take_segments(const Graph& graph, std::span<const Rewrite> rewrites, std::size_t& number) {
  const OpIndex index{graph};
  IdMap<OpId, bool> taken(graph.op_count(), false);
  Segments segments;
  const auto take = [&](const std::vector<std::string>& names, std::vector<OpId>& ops) {
    for (const std::string& name : names) {
      const OpId op = index.at(name, pointer_to(number));
      if (graph.phase(op) != Phase::forward || taken[op])
        refuse_at(
            number, "recompute",
            taken[op]
                ? fmt::format("op '{}' is listed twice to run again", name)
                : fmt::format("op '{}' is not in the forward pass, so it cannot run again for the backward pass", name),
            "name each forward op at most once");
      taken[op] = true;
      ops.push_back(op);
    }
  };
  for (;; ++number) {
    const Recompute& again = std::get<Recompute>(rewrites[number]);
    take(again.ops, segments.ops.emplace_back());
    take(again.also, segments.also.emplace_back());
    if (number + 1 == rewrites.size() || !std::holds_alternative<Recompute>(rewrites[number + 1])) return segments;
  }
}

/// The tensors of the consecutive Offload rewrites from `number` on. Moves `number` to the last of them.
std::vector<Offload> take_offloads(std::span<const Rewrite> rewrites, std::size_t& number) {
  std::vector<Offload> tensors{std::get<Offload>(rewrites[number])};
  while (number + 1 < rewrites.size() && std::holds_alternative<Offload>(rewrites[number + 1]))
    tensors.push_back(std::get<Offload>(rewrites[++number]));
  return tensors;
}

void check_copies(std::size_t copies, const char* copy, std::size_t number) {
  if (copies < 1)
    refuse_at(number, "unsplittable", fmt::format("a graph needs at least one {}", copy), "give 1 or more");
}

/// Returns the result of `make`. An InputError that it throws gets the pointer of the rewrite `number`.
template <class Make>
Graph made_at(std::size_t number, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    const Finding& first = error.findings().front();
    refuse_at(number, first.code, first.message, first.help);
  }
}

Graph with_replicas(const Graph& graph, const Replicate& replicate, std::size_t number, const Checkpoint& checkpoint) {
  return made_at(number, [&] { return data_parallel(graph, replicate, true, 0, checkpoint).graph; });
}

void check_collective_of_ranks(Collective collective, std::size_t number) {
  if (collective != Collective::ring && collective != Collective::whole)
    refuse_at(number, "collective",
              fmt::format("tensor ranks use the collectives ring or whole, not {}", name_of(collective)),
              "take ring or whole");
}

Graph with_meshes(const Graph& graph, const StageMeshes& meshes, std::size_t number, MadeSoFar& made) {
  check_collective_of_ranks(meshes.collective, number);
  return made_at(number, [&] {
    return stage_meshes(
               graph, meshes,
               [&](const Graph& stage, const Rewrite& rewrite) { made.add(size_after(stage, rewrite), number); })
        .graph;
  });
}

}  // namespace

void check_size(const Graph& graph, const Rewrite& rewrite) { MadeSoFar{graph}.add(size_after(graph, rewrite), 0); }

Graph apply_rewrites(const Graph& graph, std::span<const Rewrite> rewrites, Checkpoint checkpoint) {
  Graph current = graph;
  MadeSoFar made{graph};
  PendingSplits pending{current, made, checkpoint};
  for (std::size_t number = 0; number < rewrites.size(); ++number) {
    const Rewrite& rewrite = rewrites[number];
    const auto* split = std::get_if<SplitOp>(&rewrite);
    if (split && (pending.empty() || pending.has(split->op))) {
      pending.add(*split, number);
      continue;
    }
    checkpoint();
    current = pending.made(number);
    const auto* meshes = std::get_if<StageMeshes>(&rewrite);
    if (!split && !meshes) made.add(size_after(current, rewrite), number);
    if (const auto* replicate = std::get_if<Replicate>(&rewrite)) {
      current = with_replicas(current, *replicate, number, checkpoint);
    } else if (const auto* batch = std::get_if<Microbatch>(&rewrite)) {
      check_copies(batch->parts, "microbatch", number);
      current = split_batch(current, batch->parts, batch->at_once).graph;
    } else if (const auto* parallel = std::get_if<TensorParallel>(&rewrite)) {
      check_copies(parallel->ranks, "rank", number);
      check_collective_of_ranks(parallel->collective, number);
      if (parallel->fold > 0 && parallel->collective != Collective::whole)
        refuse_at(number, "collective", "folding tensor ranks into one works with whole collectives, not with a ring",
                  "take whole, or do not fold");
      current = tensor_parallel(current, *parallel).graph;
    } else if (meshes) {
      current = with_meshes(current, *meshes, number, made);
    } else if (std::holds_alternative<Recompute>(rewrite)) {
      const auto segments = take_segments(current, rewrites, number);
      current = made_at(number, [&] { return recompute(current, segments.ops, segments.also).graph; });
    } else if (std::holds_alternative<Offload>(rewrite)) {
      const auto tensors = take_offloads(rewrites, number);
      current = made_at(number, [&] { return offload(current, tensors); });
    } else if (const auto* tied = std::get_if<TiedCopies>(&rewrite)) {
      current = made_at(number, [&] { return tie_copies(current, *tied).graph; });
    }
    pending = PendingSplits{current, made, checkpoint};
    if (split) pending.add(*split, number);  // an op that an earlier split made
  }
  return pending.made(rewrites.empty() ? 0 : rewrites.size() - 1);
}

Problem apply_rewrites(const Problem& problem, const std::vector<Rewrite>& rewrites, Checkpoint checkpoint) {
  if (rewrites.empty()) return problem;
  std::vector<Rewrite> all = problem.rewrites();
  all.insert(all.end(), rewrites.begin(), rewrites.end());
  Graph graph = apply_rewrites(problem.graph(), std::span{rewrites}, checkpoint);
  checkpoint();
  return problem.with_graph(std::move(graph), std::move(all), std::move(checkpoint));
}

Problem scheduled_problem(const Problem& problem, const Schedule& schedule, Checkpoint checkpoint) {
  if (schedule.rewrites == problem.rewrites() || schedule.rewrites.empty()) return problem;
  if (!problem.rewrites().empty())
    refuse("other-rewrites", "the schedule is for a graph with other rewrites (\"splits\") than the problem's",
           "give the problem as it was before rewrites", "/splits");
  return apply_rewrites(problem, schedule.rewrites, std::move(checkpoint));
}

}  // namespace trainyard
