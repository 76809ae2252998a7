#include "trainyard/rewrite/tensor_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_copy.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/sharding.hpp"

namespace trainyard {
namespace {

using Layout = RankLayout;
using Way = RankWay;

class Ranks {
 public:
  /// `made`: number of ranks that are built, the first ones. Unless these are all, collectives are one op each.
  Ranks(const Graph& graph, const TensorParallel& parallel, std::size_t made)
      : graph_(graph),
        n_(parallel.ranks),
        made_(made),
        whole_(parallel.collective == Collective::whole && (parallel.fold > 0 || made == parallel.ranks)),
        fold_(parallel.fold),
        sharding_(graph, parallel.ranks, parallel.sequence) {}

  TensorParallelGraph run() {
    for (const OpId op : graph_.ops())
      for (const TensorId tensor : graph_.inputs(op)) {
        const Layout taken = sharding_.taken(op, tensor);
        if (taken == sharding_.layout(tensor)) continue;
        if (is_term(tensor)) {
          std::vector<TensorId>& terms = terms_[graph_.layer(graph_.producer(tensor))];
          if (std::ranges::find(terms, tensor) == terms.end()) terms.push_back(tensor);
          continue;
        }
        const auto [at, added] =
            wanted_.try_emplace({tensor, taken, gathers_again(op, tensor)}, Want{graph_.phase(op), op});
        if (!added) at->second.phase = std::min(at->second.phase, graph_.phase(op));
      }
    for (const OpId op : graph_.ops()) {
      for (const TensorId tensor : graph_.inputs(op)) {
        if (is_term(tensor)) add_terms(std::exchange(terms_[graph_.layer(graph_.producer(tensor))], {}));
        if (const auto found = wanted_.find({tensor, Layout::whole, true});
            found != wanted_.end() && found->second.by == op)
          convert(graph_.producer(tensor), tensor, Layout::whole, found->second, true);
      }
      for (std::size_t rank = 0; rank < made_; ++rank) add_copy(op, rank);
      if (sharding_.is_loss(op)) add_loss(op);
      for (const TensorId tensor : graph_.outputs(op))
        for (const Layout layout : {Layout::whole, Layout::share, Layout::rows})
          if (const auto found = wanted_.find({tensor, layout, false}); found != wanted_.end())
            convert(op, tensor, layout, found->second, false);
    }
    result_.ranks = n_;
    result_.way = sharding_.ways();
    result_.layout = sharding_.layouts();
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  /// The first op that takes a tensor in another layout, and the earliest phase of all ops that do.
  struct Want {
    Phase phase;
    OpId by;
  };

  /// Whether the rows of a forward op are gathered a second time for the backward pass, instead of kept whole.
  bool gathers_again(OpId op, TensorId tensor) const {
    return sharding_.layout(tensor) == Layout::rows && graph_.phase(op) != Phase::forward &&
           graph_.phase(graph_.producer(tensor)) == Phase::forward;
  }

  /// Whether the tensor is a gradient of parameters that ranks hold whole, of which each rank has computed a term.
  bool is_term(TensorId tensor) const {
    return sharding_.layout(tensor) == Layout::partial && graph_.phase(graph_.producer(tensor)) != Phase::update &&
           std::ranges::all_of(graph_.consumers(tensor),
                               [&](OpId reader) { return graph_.phase(reader) == Phase::update; });
  }

  std::string converted(TensorId tensor, Layout layout, bool again, std::size_t rank) const {
    const char* word = layout == Layout::whole ? "whole" : layout == Layout::rows ? "rows" : "share";
    return rank_name(fmt::format("{}/{}{}", graph_.name(tensor), word, again ? "#2" : ""), rank);
  }

  static bool is_part(Layout layout) { return layout == Layout::share || layout == Layout::rows; }
  Bytes bytes_of(TensorId tensor, Layout layout, std::size_t rank) const {
    const Bytes whole = graph_.bytes(tensor);
    return is_part(layout) ? Bytes{share_of(whole.count, rank, n_)} : whole;
  }

  void add_copy(OpId op, std::size_t rank) {
    OpView& view = copy_.start(op);
    const std::string suffix = rank_name("", rank);
    copy_.append(view.name, suffix);
    view.inputs.clear();
    for (const TensorId tensor : graph_.inputs(op)) {
      const Layout taken = sharding_.taken(op, tensor);
      if (rank > 0 && taken == Layout::whole && sharding_.sums_partial(op)) continue;  // only the first rank adds it
      if (taken == sharding_.layout(tensor))
        copy_.append(view.inputs.emplace_back(graph_.name(tensor)), suffix);
      else
        view.inputs.push_back(copy_.lend(converted(tensor, taken, gathers_again(op, tensor), rank)));
    }
    if (sharding_.is_loss(op)) {
      view.outputs = {{copy_.lend(rank_name(rows_of(op), rank)), row_bytes(op)}};
    } else {
      std::size_t number = 0;
      for (const TensorId tensor : graph_.outputs(op)) {
        OpView::Output& output = view.outputs[number++];
        copy_.append(output.name, suffix);
        output.bytes = bytes_of(tensor, sharding_.layout(tensor), rank);
      }
    }
    for (std::string_view& earlier : view.after) copy_.append(earlier, suffix);
    if (!view.colocate.empty()) copy_.append(view.colocate, suffix);
    if (sharding_.is_divided(op)) take_share(view, op, rank);
    builder_.add_view(view);
    added(rank, op);
  }

  void take_share(OpView& view, OpId op, std::size_t rank) {
    const auto part = [&](auto whole) { return decltype(whole){share_of(whole.count, rank, n_)}; };
    view.flops.value /= static_cast<double>(n_);
    view.workspace_bytes = part(view.workspace_bytes);
    for (OpView::Time& given : view.times) given.time = part(given.time);
    Bytes undivided{0};
    if (sharding_.way(op) != Way::share) {
      for (const TensorId tensor : graph_.inputs(op))
        if (sharding_.taken(op, tensor) == Layout::whole && !reads_share(op, tensor)) undivided += graph_.bytes(tensor);
      for (const TensorId tensor : graph_.outputs(op))
        if (!is_part(sharding_.layout(tensor))) undivided += graph_.bytes(tensor);
    }
    undivided = std::min(undivided, view.bytes_accessed);
    view.bytes_accessed = undivided + part(view.bytes_accessed - undivided);
    const double held = sharding_.held(op);
    const auto resident = [&](Bytes whole) {
      if (held * static_cast<double>(n_) == 1) return part(whole);
      return Bytes{static_cast<std::int64_t>(held * static_cast<double>(whole.count) + 0.5)};
    };
    view.parameter_bytes = resident(view.parameter_bytes);
    view.state_bytes = resident(view.state_bytes);
    view.signature = copy_.lend(sharding_.signature(op));
  }
  /// Whether a rank's product reads only its share of a whole tensor.
  bool reads_share(OpId op, TensorId tensor) const {
    const bool first = graph_.inputs(op).front() == tensor, backward = graph_.phase(op) == Phase::backward;
    return sharding_.way(op) == Way::rows || (sharding_.way(op) == Way::column && backward && first) ||
           (sharding_.way(op) == Way::row && !(backward && first));
  }

  void add(const OpSpec& spec, std::size_t rank, OpId original) {
    builder_.add(spec);
    added(rank, original);
  }
  void added(std::size_t rank, OpId original) {
    result_.rank.push_back(rank);
    result_.original.push_back(original);
  }
  void add(const CollectiveOps& collective, OpId made_by) {
    result_.collectives.back().first = result_.original.size();
    result_.collectives.back().count = collective.ops().size();
    for (std::size_t i = 0; i < collective.ops().size(); ++i)
      add(collective.ops()[i], collective.op_ranks()[i], made_by);
  }
  /// `group`: colocation group of each rank's ops; empty: none.
  CollectiveOps collective(OpId op, const std::string& array, CollectiveKind kind, Bytes bytes, Phase phase,
                           const std::string& group = "") {
    result_.collectives.push_back({.kind = kind, .bytes = bytes, .made_by = op, .phase = phase});
    const OpSpec maker = spec_of(graph_, op);
    const OpSpec each{.phase = phase, .layer = maker.layer, .device_kinds = maker.device_kinds, .times = maker.times};
    std::vector<OpSpec> ranks(whole_ ? made_ : n_, each);
    for (std::size_t rank = 0; !group.empty() && rank < ranks.size(); ++rank)
      ranks[rank].colocate = rank_name(group, rank);
    return {fmt::format("{}/{}", array, name_of(kind)), std::move(ranks)};
  }
  CollectiveTask task(CollectiveKind kind, Bytes bytes) const {
    return {kind, bytes, n_ / made_, std::max<std::size_t>(fold_, 1)};
  }
  /// Sums of the ranks' arrays, in parts. As one task, the sums are tensors `name`.
  std::vector<ArrayParts> sums(CollectiveOps& ops, const std::vector<std::vector<std::string>>& own,
                               const std::string& name, Bytes bytes) const {
    std::vector<ArrayParts> parts;
    if (whole_) {
      std::vector<OutputSpec> outputs;
      for (std::size_t rank = 0; rank < made_; ++rank) outputs.push_back({rank_name(name, rank), bytes});
      ops.whole(task(CollectiveKind::all_reduce, bytes), own, outputs);
      for (const OutputSpec& output : outputs) parts.push_back({{output.name, bytes}});
      return parts;
    }
    if (made_ == n_) return ops.all_reduce(Collective::ring, own, bytes);
    for (const auto& arrays : own) {
      parts.emplace_back();
      for (const std::string& array : arrays) parts.back().push_back({array, bytes});
    }
    return parts;
  }

  /// Adds up the terms of a layer's gradients, of which updates read the sum.
  void add_terms(const std::vector<TensorId>& terms) {
    if (terms.empty()) return;
    const OpId op = graph_.producer(terms.front());
    const std::string name = fmt::format("{}/sum", graph_.name(terms.front()));
    Bytes bytes{0};
    for (const TensorId term : terms) bytes += graph_.bytes(term);
    CollectiveOps ops =
        collective(op, std::string{graph_.name(terms.front())}, CollectiveKind::all_reduce, bytes, Phase::update, name);
    result_.collectives.back().terms = terms;
    std::vector<std::vector<std::string>> own(made_);
    std::vector<std::vector<OutputSpec>> made(made_);
    for (std::size_t rank = 0; rank < made_; ++rank)
      for (const TensorId term : terms) {
        own[rank].push_back(rank_name(graph_.name(term), rank));
        made[rank].push_back({converted(term, Layout::whole, false, rank), graph_.bytes(term)});
      }
    const std::vector<ArrayParts> parts = sums(ops, own, name, bytes);
    for (std::size_t rank = 0; rank < made_; ++rank) ops.join(rank, "scatter", parts[rank], std::move(made[rank]));
    add(ops, op);
  }

  void convert(OpId op, TensorId tensor, Layout to, Want want, bool again) {
    using Kind = CollectiveKind;
    const Layout from = sharding_.layout(tensor);
    const Kind kind = is_part(from) ? Kind::all_gather : is_part(to) ? Kind::reduce_scatter : Kind::all_reduce;
    const std::string name{graph_.name(tensor)};
    const Bytes whole = graph_.bytes(tensor);
    CollectiveOps ops = collective(op, again ? name + "#2" : name, kind, whole, want.phase);
    result_.collectives.back().tensor = tensor;
    result_.collectives.back().to = to;
    std::vector<std::size_t> members;
    std::vector<std::vector<std::string>> own;
    for (std::size_t rank = 0; rank < made_; ++rank) {
      members.push_back(rank);
      own.push_back({again ? wait_for_gradient(ops, tensor, want.by, rank) : rank_name(name, rank)});
    }
    const auto made = [&](std::size_t rank) {
      return std::vector<OutputSpec>{{converted(tensor, to, again, rank), bytes_of(tensor, to, rank)}};
    };
    if (whole_) {
      std::vector<OutputSpec> outputs;
      for (std::size_t rank = 0; rank < made_; ++rank) outputs.push_back(made(rank).front());
      ops.whole(task(kind, whole), own, outputs);
      return add(ops, op);
    }
    if (made_ < n_) {
      for (std::size_t rank = 0; rank < made_; ++rank)
        ops.join(rank, "whole", {{own[rank].front(), whole}}, made(rank));
      return add(ops, op);
    }
    if (kind == Kind::all_reduce) {
      const auto sums = ops.all_reduce(Collective::ring, own, whole);
      for (std::size_t rank = 0; rank < n_; ++rank) ops.join(rank, "sum", sums[rank], made(rank));
    } else if (kind == Kind::all_gather) {
      ArrayParts shares;
      for (std::size_t rank = 0; rank < n_; ++rank) shares.push_back({own[rank].front(), bytes_of(tensor, from, rank)});
      const auto all = ops.all_gather("step", members, shares);
      for (std::size_t rank = 0; rank < n_; ++rank) ops.join(rank, "whole", all[rank], made(rank));
    } else {
      std::vector<ArrayParts> parts;
      for (std::size_t rank = 0; rank < n_; ++rank) parts.push_back(ops.divide(rank, "parts", own[rank], whole, n_));
      const ArrayParts sums = ops.reduce_scatter("step", members, parts);
      for (std::size_t rank = 0; rank < n_; ++rank) ops.join(rank, "share", {sums[rank]}, made(rank));
    }
    add(ops, op);
  }

  /// The rank's rows, available once the gradients are that the op reads with them.
  std::string wait_for_gradient(CollectiveOps& ops, TensorId tensor, OpId by, std::size_t rank) const {
    OpSpec& relay = ops.relay(rank, "wait");
    relay.inputs = {rank_name(graph_.name(tensor), rank)};
    relay.outputs = {{relay.name, bytes_of(tensor, Layout::rows, rank)}};
    for (const TensorId other : graph_.inputs(by))
      if (const OpId maker = graph_.producer(other); graph_.phase(maker) == Phase::backward)
        relay.after.push_back(rank_name(graph_.name(maker), rank));
    return relay.name;
  }

  // --- cross entropy over a shared vocabulary: the largest logit, the sum and the label's logit of each row ---

  std::string rows_of(OpId op) const { return fmt::format("{}/rows", graph_.name(op)); }
  Bytes row_bytes(OpId op) const {
    std::string_view signature = graph_.signature(op);  // its extents are those of the whole op
    const auto& logits = sharding_.shapes(op)->reads.front();
    const double rows = logits.count() / static_cast<double>(logits.features());
    return Bytes{std::llround(3 * 4 * rows * detail::take_share_of(signature))};
  }
  void add_loss(OpId op) {
    CollectiveOps ops = collective(op, rows_of(op), CollectiveKind::all_reduce, row_bytes(op), graph_.phase(op));
    std::vector<std::vector<std::string>> rows;
    for (std::size_t rank = 0; rank < made_; ++rank) rows.push_back({rank_name(rows_of(op), rank)});
    const std::vector<ArrayParts> parts = sums(ops, rows, rows_of(op) + "/sum", row_bytes(op));
    for (std::size_t rank = 0; rank < made_; ++rank) {
      std::vector<OutputSpec> outputs;
      for (const TensorId tensor : graph_.outputs(op))
        outputs.push_back({rank_name(graph_.name(tensor), rank), bytes_of(tensor, sharding_.layout(tensor), rank),
                           graph_.kept(tensor)});
      ops.join(rank, "sum", parts[rank], std::move(outputs));
    }
    add(ops, op);
  }

  const Graph& graph_;
  const std::size_t n_, made_;
  const bool whole_;  // collectives are single tasks
  const std::size_t fold_;
  const detail::Sharding sharding_;
  std::map<std::tuple<TensorId, Layout, bool>, Want> wanted_;  // true: gathered again
  std::map<std::string_view, std::vector<TensorId>> terms_;    // terms still to be added up, by layer
  TensorParallelGraph result_;
  GraphBuilder builder_{graph_.name()};
  OpCopy copy_{graph_};
};

}  // namespace

std::string rank_name(std::string_view name, std::size_t rank) { return copy_name(name, kRankMark, rank); }

std::size_t tensor_rank(std::string_view name) {
  const std::size_t mark = name.rfind(kRankMark);
  std::size_t rank = 0;
  if (mark == std::string_view::npos) return 0;
  const auto [end, error] = std::from_chars(name.data() + mark + 1, name.data() + name.size(), rank);
  return error == std::errc{} && rank > 0 ? rank - 1 : 0;
}

TensorParallelGraph tensor_parallel(const Graph& graph, const TensorParallel& parallel) {
  if (parallel.ranks > 1) return Ranks{graph, parallel, parallel.fold > 0 ? 1 : parallel.ranks}.run();
  TensorParallelGraph same{.graph = graph, .rank = IdMap<OpId, std::size_t>(graph.op_count(), 0)};
  for (const OpId op : graph.ops()) same.original.push_back(op);
  return same;
}

TensorParallelGraph first_tensor_rank(const Graph& graph, const TensorParallel& parallel) {
  return parallel.ranks > 1
             ? Ranks{graph, TensorParallel{.ranks = parallel.ranks, .sequence = parallel.sequence}, 1}.run()
             : tensor_parallel(graph, parallel);
}

HeadsShared heads_shared(const Graph& graph, const TensorParallel& parallel, const std::function<bool(OpId)>& among) {
  HeadsShared found;
  const detail::Sharding sharding{graph, parallel.ranks, parallel.sequence};
  for (const OpId op : graph.ops()) {
    const auto& shapes = sharding.shapes(op);
    if (graph.phase(op) != Phase::forward || (graph.type(op) != "MatMul" && graph.type(op) != "Attention") ||
        graph.inputs(op).size() < 2 || !shapes || shapes->reads.empty() || shapes->reads.front().extents.size() != 4 ||
        (among && !among(op)))
      continue;
    found.any = true;
    if (parallel.ranks == 1 || sharding.is_divided(op)) continue;
    found.whole = op;
    break;
  }
  return found;
}

bool shares_parameters(const Graph& graph, const TensorParallel& parallel) {
  const detail::Sharding sharding{graph, parallel.ranks, parallel.sequence};
  const auto ops = graph.ops();
  return parallel.ranks > 1 && std::any_of(ops.begin(), ops.end(), [&](OpId op) {
           return sharding.is_divided(op) && graph.parameter_bytes(op).count > 0;
         });
}

bool shares_sequence(const Graph& graph, const TensorParallel& parallel) {
  const detail::Sharding sharding{graph, parallel.ranks, parallel.sequence};
  const auto ops = graph.ops();
  return parallel.ranks > 1 && std::any_of(ops.begin(), ops.end(), [&](OpId op) {
           return graph.phase(op) == Phase::forward && sharding.shares_rows(op);
         });
}

}  // namespace trainyard
