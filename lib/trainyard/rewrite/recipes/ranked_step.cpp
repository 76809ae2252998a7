#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/local_model.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard::detail {
namespace {

class RankedRecipe {
 public:
  RankedRecipe(const Graph& graph, const TrainingRecipe& recipe, const TensorParallel& options)
      : graph_(graph),
        from_(recipe),
        ranks_(options.ranks),
        made_(tensor_parallel(graph, options)),
        names_(made_.graph),
        ops_(made_.graph),
        result_(without_ops(recipe, made_.graph.op_count())),
        local_(result_.model, {options.ranks}),
        tensor_(graph.tensor_count()),
        like_(graph.tensor_count(), ValueId::none()),
        value_(recipe.model.values.size()) {
    if (options.fold > 0)
      throw InputError({.code = "not-executed", .message = "folded ranks cannot be executed", .help = "do not fold"});
    for (const OpId op : graph.topological_order()) find(op);
    for (const OpId op : graph.ops()) find_parameter(op);
  }

  RewrittenStep run() {
    std::vector<bool> of_collective(made_.graph.op_count(), false);
    for (const RankCollective& each : made_.collectives) {
      for (std::size_t i = 0; i < each.count; ++i) of_collective[each.first + i] = true;
      make(each);
    }
    for (const OpId op : made_.graph.ops())
      if (!of_collective[op.index()]) result_.ops[op] = copy(made_.original[op], made_.rank[op], op);
    return {std::move(made_.graph), std::move(result_), 0};
  }

 private:
  using Kind = OpRecipe::Kind;

  [[noreturn]] void refuse(OpId op, const std::string& why) const {
    throw InputError({.code = "not-executed",
                      .message = fmt::format("executing the share of a rank in '{}' ({}) is not supported: {}",
                                             graph_.name(op), graph_.type(op), why),
                      .help = kPredicted});
  }
  const Model& model() const { return from_.model; }
  const Shape& shape(ValueId value) const { return model().values[value].shape; }
  static std::size_t feature(const Shape& shape) {
    return shape.size() >= 4 ? 1 : std::max<std::size_t>(shape.size(), 1) - 1;
  }

  /// A tensor as a copy of an op reads it: as it is, or converted by a collective.
  struct Taken {
    TensorId tensor;
    std::optional<RankLayout> as = {};  // layout that the collective makes
  };
  Taken take(OpId copy, TensorId tensor, std::size_t rank) const {
    using Layout = RankLayout;
    static constexpr std::pair<const char*, Layout> kWords[] = {
        {"/whole", Layout::whole}, {"/share", Layout::share}, {"/rows", Layout::rows}, {"/whole#2", Layout::whole}};
    const auto inputs = made_.graph.inputs(copy);
    for (const auto& [word, layout] : kWords)
      if (const auto found = names_.find(rank_name(fmt::format("{}{}", graph_.name(tensor), word), rank));
          found && std::find(inputs.begin(), inputs.end(), *found) != inputs.end())
        return {*found, layout};
    return {names_.at(rank_name(graph_.name(tensor), rank))};
  }
  /// Cut of the tensor as the op's copy on the first rank takes it.
  MaybeCut taken(OpId op, TensorId tensor) const {
    const Taken how = take(*ops_.find(rank_name(graph_.name(op), 0)), tensor, 0);
    return how.as ? target(tensor, *how.as) : tensor_[tensor];
  }
  /// Cut of a tensor after a collective to this layout.
  MaybeCut target(TensorId tensor, RankLayout layout) const {
    if (layout != RankLayout::share && layout != RankLayout::rows) return std::nullopt;
    const Shape& of = shape(like_[tensor]);
    const std::size_t at = layout == RankLayout::share ? feature(of) : of.size() - 2;
    const MaybeCut cut = even_cut(of, at, ranks_);
    if (!cut)
      throw InputError({.code = "not-executed",
                        .message = fmt::format("'{}', {}, cannot be divided equally among {} ranks",
                                               graph_.name(tensor), text_of(of), ranks_),
                        .help = "take a number of ranks that divides it"});
    return cut;
  }
  MaybeCut seen(const std::vector<ViewStep>& views, const MaybeCut& cut) const {
    return local_.seen(views, Cuts{cut})[0];
  }
  MaybeCut taken(OpId op, const Operand& operand) const {
    if (operand.tensor.is_none()) return std::nullopt;
    return seen(operand.views, taken(op, operand.tensor));
  }

  void make(const OpRecipe::Result& result, const MaybeCut& cut, ValueId value) {
    for (const Operand& part : result.parts) {
      tensor_[part.tensor] = seen(part.views, cut);
      like_[part.tensor] = value_after(model(), part.views, value);
    }
  }

  // --- the part of each op that a rank computes ---

  void find(OpId op) {
    const OpRecipe& how = from_.ops[op];
    switch (how.kind) {
      case Kind::input:
        return make(how.results[0], std::nullopt, how.value);
      case Kind::forward:
        return find_forward(op, how);
      case Kind::backward: {
        const Node& node = model().nodes[how.node];
        for (const OpRecipe::Result& result : how.results) {
          const MaybeCut cut = rule(how.node).inputs[result.position];
          make(result, cut, node.inputs[result.position]);
          for (const Operand& part : result.parts) check_gradient(op, how, part.tensor, cut);
        }
        return;
      }
      case Kind::add_gradients:
        value_[how.value] = find_sum(op, how, how.value);
        return;
      case Kind::slice_gradient:
      case Kind::view_gradient: {
        const ValueId value = how.kind == Kind::slice_gradient ? how.value : model().nodes[how.node].inputs[0];
        const bool cut =
            std::ranges::any_of(how.reads, [&](const Operand& read) { return taken(op, read).has_value(); });
        make(how.results[0], cut ? value_[value] : std::nullopt, value);
        return check(op, how.results[0].parts[0].tensor, cut ? value_[value] : std::nullopt);
      }
      case Kind::rest:  // another stage makes it, whole
        if (!how.results.empty()) make(how.results[0], std::nullopt, how.results[0].like);
        return;
      case Kind::squares:
      case Kind::clip:
        return make(how.results[0], std::nullopt, how.results[0].like);
      case Kind::update:
        return;
      case Kind::sum:
        if (how.results[0].like.is_none()) refuse_rewritten(op);
        find_sum(op, how, how.results[0].like);  // a sum over tied copies
        return;
      case Kind::relay:
      case Kind::join:
        refuse_rewritten(op);
    }
  }
  [[noreturn]] void refuse_rewritten(OpId op) const {
    throw InputError(
        {.code = "not-executed",
         .message = fmt::format("tensor ranks of a graph whose op '{}' is already rewritten cannot be executed",
                                graph_.name(op)),
         .help = "make tensor ranks before replicas and microbatches"});
  }

  /// A sum of gradients of `value` is divided if any of its terms is. Returns its cut.
  MaybeCut find_sum(OpId op, const OpRecipe& how, ValueId value) {
    MaybeCut cut;
    for (const Operand& read : how.reads)
      if (const MaybeCut each = taken(op, read)) cut = each;
    make(how.results[0], cut, value);
    check(op, how.results[0].parts[0].tensor, cut);
    return cut;
  }

  void note(const Operand& read, MaybeCut cut) {
    for (const ViewStep& view : read.views) {
      const Node& of = model().nodes[view.node];
      if (view.kind == ViewStep::Kind::output) value_[of.inputs[0]] = cut;
      cut = seen({view}, cut);
      if (view.kind == ViewStep::Kind::output) value_[of.outputs[view.index]] = cut;
    }
  }

  void find_forward(OpId op, const OpRecipe& how) {
    const Node& node = model().nodes[how.node];
    const RankWay way = made_.way[op];
    std::vector<MaybeCut> inputs;
    for (const Operand& read : how.reads) {
      inputs.push_back(taken(op, read));
      if (!read.tensor.is_none()) note(read, taken(op, read.tensor));
    }
    const auto divided = [&](const Shape& of, std::size_t at) {
      MaybeCut cut = even_cut(of, at, ranks_);
      if (!cut) refuse(op, fmt::format("{} cannot be divided equally among {} ranks", text_of(of), ranks_));
      return cut;
    };
    MaybeCut outer;

    if (way == RankWay::column) {
      outer = divided(shape(node.outputs[0]), feature(shape(node.outputs[0])));
      // If the result is a concatenation of several tensors, each of these is divided.
      std::vector<std::int64_t> blocks;
      for (const OpRecipe::Result& result : how.results)
        for (const Operand& part : result.parts)
          if (!part.views.empty()) {
            const ViewStep& view = part.views.front();
            const Node& split = model().nodes[view.node];
            if (split.type != "Split") continue;
            blocks.clear();
            for (const ValueId each : split.outputs) {
              if (shape(each)[outer->dimension] == shape(node.outputs[0])[outer->dimension]) continue;
              blocks.push_back(divided(shape(each), outer->dimension)->blocks[0]);
            }
          }
      if (!blocks.empty()) outer->blocks = std::move(blocks);
    }
    if (way == RankWay::row && !inputs[0]) inputs[0] = divided(shape(node.inputs[0]), feature(shape(node.inputs[0])));
    if (way == RankWay::whole) inputs.assign(inputs.size(), std::nullopt);
    if (is_shared_loss(op)) return find_loss(op, how, std::move(inputs));
    CutNode& made = rules_[how.node];
    if (way == RankWay::vocabulary) {  // each rank looks up what is in its rows; other results are 0
      if (node.integer("axis", 0) != 0 || inputs[1]) refuse(op, "it does not look up rows of a table");
      made = {{divided(shape(node.inputs[0]), 0), std::nullopt}, {std::nullopt}, true};
    } else {
      made = cut_node(model(), node, std::move(inputs), ranks_, outer);
    }
    for (const OpRecipe::Result& result : how.results) {
      const MaybeCut cut = made.outputs[result.position];
      value_[node.outputs[result.position]] = cut;
      make(result, cut, node.outputs[result.position]);
      for (const Operand& part : result.parts) check(op, part.tensor, tensor_[part.tensor], made.partial);
    }
  }
  bool is_shared_loss(OpId op) const {
    return graph_.type(op) == "SoftmaxCrossEntropy" && made_.way[op] == RankWay::share;
  }
  // --- cross entropy with a share of the classes on each rank ---

  void find_loss(OpId op, const OpRecipe& how, std::vector<MaybeCut> inputs) {
    const Node& node = model().nodes[how.node];
    if (!inputs[0] || inputs[0]->blocks.size() != 1 || inputs[1] ||
        inputs[0]->dimension != feature(shape(node.inputs[0])))
      refuse(op, "its logits are not divided by class");
    inputs.resize(node.inputs.size());
    CutNode& made = rules_[how.node];
    made.inputs = std::move(inputs);
    made.outputs.resize(node.outputs.size());
    make(how.results[0], std::nullopt, node.outputs[0]);
  }
  std::int64_t loss_rows(const Node& loss) const {
    const Shape& logits = shape(loss.inputs[0]);
    return elements(logits) / logits[feature(logits)];
  }
  ValueId row_value(std::int64_t rows) {
    Value value{.name = "rows", .shape = {rows, 3}, .shape_known = true};
    result_.model.values.push_back(std::move(value));
    return ValueId{result_.model.values.size() - 1};
  }
  NodeId loss_node(OpId op, const char* type, std::size_t rank, const std::vector<ValueId>& rows, ValueId output) {
    const Node& loss = model().nodes[from_.ops[op].node];
    const Cuts cuts{rule(from_.ops[op].node).inputs[0]};
    Node node{.name = loss.name,
              .type = type,
              .inputs = {local_.value(loss.inputs[0], cuts), loss.inputs[1]},
              .outputs = {output}};
    if (std::string_view{type} == "CrossEntropyCombine") node.inputs.clear();
    node.inputs.insert(node.inputs.end(), rows.begin(), rows.end());
    const std::int64_t share = cuts[0]->blocks[0];
    node.attributes = {{"axis", static_cast<std::int64_t>(cuts[0]->dimension)},
                       {"first_class", static_cast<std::int64_t>(rank) * share},
                       {"classes", static_cast<std::int64_t>(ranks_) * share}};
    result_.model.nodes.push_back(std::move(node));
    return NodeId{result_.model.nodes.size() - 1};
  }

  /// Recipe of the numbers that a rank computes for each row.
  OpRecipe loss_of_rank(OpId op, std::size_t rank, OpId made, OpRecipe how) {
    for (std::size_t i = 0; i < how.reads.size(); ++i) turn(op, made, how.reads[i], rank, rule(how.node).inputs[i]);
    how.node = loss_node(op, "CrossEntropyRows", rank, {}, row_value(loss_rows(model().nodes[how.node])));
    how.extras.clear();
    how.results = {{.position = 0, .parts = {{.tensor = *made_.graph.outputs(made).begin()}}}};
    return how;
  }
  void make_loss(const RankCollective& each) {
    const OpId op = each.made_by;
    const OpRecipe& whole = from_.ops[op];
    const Node loss = model().nodes[whole.node];
    const std::int64_t rows = loss_rows(loss), n = static_cast<std::int64_t>(ranks_);
    if (each.count > 4 * ranks_ && rows % n != 0)
      refuse(op, fmt::format("its {} rows cannot be divided equally among {} ranks", rows, n));
    const Cut cut{0, {rows / n}};
    for (std::size_t i = 0; i < each.count; ++i) {
      const OpId part{each.first + i};
      const std::size_t rank = made_.rank[part];
      OpRecipe& how = result_.ops[part];
      how = collective_op(made_.graph, part, {each.kind, cut, cut});
      const bool last = i + ranks_ >= each.count;
      if (how.kind == Kind::sum && how.reads.size() > 1 && !last) {
        const ValueId all =
            row_value(made_.graph.bytes(how.results[0].parts[0].tensor).count == each.bytes.count ? rows : rows / n);
        how.kind = Kind::forward;
        how.node = loss_node(op, "CrossEntropyCombine", rank, std::vector<ValueId>(how.reads.size(), all), all);
      }
      if (!last) continue;
      std::vector<Operand> reads{whole.reads[0], whole.reads[1]};
      // The logits are those that the op of the rows reads.
      const OpId rank_op = *ops_.find(rank_name(graph_.name(op), rank));
      for (std::size_t k = 0; k < 2; ++k) turn(op, rank_op, reads[k], rank, rule(whole.node).inputs[k]);
      const ValueId piece = row_value(rows / static_cast<std::int64_t>(how.reads.size()));
      const std::vector<ValueId> pieces(how.reads.size(), piece);
      reads.insert(reads.end(), how.reads.begin(), how.reads.end());
      how = whole;
      how.reads = std::move(reads);
      how.node = loss_node(op, "CrossEntropyWhole", rank, pieces, loss.outputs[0]);
      of_rank_[{whole.node, rank}] = how.node;
      for (TensorId& extra : how.extras) extra = names_.at(rank_name(graph_.name(extra), rank));
      for (OpRecipe::Result& result : how.results)
        for (Operand& piece_of : result.parts)
          piece_of.tensor = names_.at(rank_name(graph_.name(piece_of.tensor), rank));
      if (rank > 0) how.loss_share = 0;
    }
  }

  const CutNode& rule(NodeId node) {
    CutNode& rule = rules_[node];
    rule.inputs.resize(model().nodes[node].inputs.size());
    rule.outputs.resize(model().nodes[node].outputs.size());
    return rule;
  }

  /// Checks that the rewrite and the operator's rule agree on what a rank has of the tensor.
  void check(OpId op, TensorId tensor, const MaybeCut& cut, bool partial = false) const {
    const RankLayout is = made_.layout[tensor];
    const bool part = is == RankLayout::share || is == RankLayout::rows;
    if (part != cut.has_value() || (partial && is != RankLayout::partial))
      refuse(op,
             fmt::format("'{}' should be {} on each rank, but is {}", graph_.name(tensor), part ? "a part" : "whole",
                         cut       ? "a part"
                         : partial ? "a term of a sum"
                                   : "whole"));
  }
  void check_gradient(OpId op, const OpRecipe& how, TensorId tensor, const MaybeCut& cut) {
    check(op, tensor, tensor_[tensor]);
    if (cut || made_.layout[tensor] == RankLayout::partial) return;
    if (std::ranges::any_of(rule(how.node).outputs, [](const MaybeCut& each) { return each.has_value(); }))
      refuse(op, fmt::format("'{}' is a term of a sum that no collective adds up", graph_.name(tensor)));
  }

  /// Finds the cut of a parameter, which is that of its gradient.
  void find_parameter(OpId op) {
    const OpRecipe& how = from_.ops[op];
    if (how.kind != Kind::update) return;
    if (const MaybeCut cut = taken(op, how.reads[0])) parameter_[how.value] = cut;
  }

  // --- recipes ---

  ValueId own(ValueId value, std::size_t rank) {
    const Value::Role role = model().values[value].role;
    if (role != Value::Role::parameter && role != Value::Role::buffer) return value;
    const auto [at, added] = own_.try_emplace({value, rank}, ValueId::none());
    if (!added) return at->second;
    const auto cut = parameter_.find(value);
    const Cuts cuts{cut == parameter_.end() ? MaybeCut{} : cut->second};
    at->second = local_.copy(value, cuts, fmt::format("^{}", rank + 1));
    std::vector<Part> parts;
    if (cuts[0]) parts.push_back({cuts[0], rank, ranks_});
    note_copy(result_, at->second, value, std::move(parts));
    return at->second;
  }

  /// Turns the operand into that of a rank's op, cut as wanted.
  void turn(OpId op, OpId copy, Operand& operand, std::size_t rank, const MaybeCut& wanted) {
    if (operand.is_none()) return;
    // No op makes this value.
    if (!operand.held.is_none() && model().values[operand.held].role == Value::Role::activation) return;
    Cuts cuts{MaybeCut{}};
    if (!operand.held.is_none()) {
      if (const auto at = parameter_.find(operand.held); at != parameter_.end()) cuts[0] = at->second;
      operand.held = own(operand.held, rank);
    } else {
      cuts[0] = taken(op, operand.tensor);
      operand.tensor = take(copy, operand.tensor, rank).tensor;
    }
    cuts = local_.through(operand.views, std::move(cuts));
    if (cuts[0] == wanted) return;
    if (cuts[0]) refuse(op, "a divided operand is needed whole");
    operand.parts.push_back({wanted, rank, ranks_});
  }

  OpRecipe copy(OpId op, std::size_t rank, OpId made) {
    OpRecipe how = from_.ops[op];
    const auto tensor = [&](TensorId id) { return names_.at(rank_name(graph_.name(id), rank)); };
    const auto turn_results = [&](const MaybeCut& cut, OpRecipe::Result& result) {
      for (Operand& part : result.parts) {
        part.tensor = tensor(part.tensor);
        static_cast<void>(local_.through(part.views, Cuts{cut}));
      }
    };
    switch (how.kind) {
      case Kind::input:
        turn_results(std::nullopt, how.results[0]);
        return how;
      case Kind::forward:
        if (is_shared_loss(op)) return loss_of_rank(op, rank, made, std::move(how));
        return copy_node(op, rank, made, std::move(how));
      case Kind::backward:
        return copy_node(op, rank, made, std::move(how));
      case Kind::add_gradients: {
        const MaybeCut cut = tensor_cut(how.results[0]);
        for (Operand& read : how.reads) turn(op, made, read, rank, cut);
        keep_read(how.reads, made_.graph.inputs(made));  // one, if another rank adds the whole term
        how.value = local_.value(how.value, Cuts{cut});
        turn_results(cut, how.results[0]);
        return how;
      }
      case Kind::sum: {
        const MaybeCut cut = tensor_cut(how.results[0]);
        for (Operand& read : how.reads) turn(op, made, read, rank, cut);
        keep_read(how.reads, made_.graph.inputs(made));
        how.results[0].like = local_.value(how.results[0].like, Cuts{cut});
        turn_results(cut, how.results[0]);
        return how;
      }
      case Kind::slice_gradient:
      case Kind::view_gradient: {
        const bool slices = how.kind == Kind::slice_gradient;
        const ValueId value = slices ? how.value : model().nodes[how.node].inputs[0];
        const MaybeCut cut = made_cut(how.results[0]) ? value_[value] : MaybeCut{};
        for (std::size_t i = 0; i < how.reads.size(); ++i) {
          const ViewStep view{ViewStep::Kind::output, slices ? how.slices[i] : how.node, slices ? 0 : i};
          turn(op, made, how.reads[i], rank, seen({view}, cut));
          if (slices) how.slices[i] = local_.step(view, Cuts{cut}).node;
        }
        if (slices)
          how.value = local_.value(value, Cuts{cut});
        else
          how.node = local_.step({ViewStep::Kind::output, how.node, 0}, Cuts{cut}).node;
        turn_results(cut, how.results[0]);
        return how;
      }
      case Kind::squares:
      case Kind::clip:
      case Kind::update: {
        const auto at = parameter_.find(how.value);
        for (std::size_t i = 0; i < how.reads.size(); ++i)
          turn(op, made, how.reads[i], rank, i > 0 || at == parameter_.end() ? MaybeCut{} : at->second);
        if (how.kind != Kind::clip) how.value = own(how.value, rank);
        if (how.kind != Kind::update) turn_results(std::nullopt, how.results[0]);
        return how;
      }
      default:
        return how;
    }
  }
  MaybeCut tensor_cut(const OpRecipe::Result& result) const {
    return result.parts.size() == 1 && result.parts[0].views.empty() ? tensor_[result.parts[0].tensor] : MaybeCut{};
  }
  bool made_cut(const OpRecipe::Result& result) const {
    return std::ranges::any_of(result.parts, [&](const Operand& part) { return tensor_[part.tensor].has_value(); });
  }

  OpRecipe copy_node(OpId op, std::size_t rank, OpId made, OpRecipe how) {
    const CutNode& of = rule(how.node);
    const bool backward = how.kind == Kind::backward;
    for (std::size_t i = 0; i < how.reads.size(); ++i) turn(op, made, how.reads[i], rank, of.inputs[i]);
    for (std::size_t i = 0; i < how.outputs.size(); ++i) turn(op, made, how.outputs[i], rank, of.outputs[i]);
    for (std::size_t i = 0; i < how.gradients.size(); ++i) turn(op, made, how.gradients[i], rank, of.outputs[i]);
    if (!backward && of.partial && rank > 0 && how.reads.size() > 2) how.reads[2] = {};  // one rank adds the bias
    for (TensorId& extra : how.extras) extra = names_.at(rank_name(graph_.name(extra), rank));
    for (OpRecipe::Result& result : how.results) {
      const Cuts cuts{backward ? of.inputs[result.position] : of.outputs[result.position]};
      for (Operand& part : result.parts) {
        part.tensor = names_.at(rank_name(graph_.name(part.tensor), rank));
        static_cast<void>(local_.through(part.views, cuts));
      }
    }
    const bool loss = !backward && !from_.loss.is_none() && model().nodes[how.node].outputs[0] == from_.loss;
    if ((loss || how.loss_share) && rank > 0) how.loss_share = 0;
    if (!backward && model().nodes[how.node].type == "Dropout" && of.outputs[0])
      how.drawn =
          std::make_shared<Drawn>(Drawn{how.node, model().nodes[how.node].outputs[0], {{of.outputs[0], rank, ranks_}}});
    std::vector<Cuts> inputs, outputs;
    for (const MaybeCut& cut : of.inputs) inputs.push_back({cut});
    for (const MaybeCut& cut : of.outputs) outputs.push_back({cut});
    if (const auto divided = of_rank_.find({how.node, rank}); divided != of_rank_.end()) {
      how.node = divided->second;
      return how;
    }
    if (made_.way[op] != RankWay::vocabulary) {
      how.node = local_.node(how.node, inputs, outputs);
      return how;
    }
    Node rows = model().nodes[how.node];
    rows.inputs[0] = local_.value(rows.inputs[0], inputs[0]);
    rows.attributes["first_row"] = static_cast<std::int64_t>(rank) * of.inputs[0]->blocks[0];
    result_.model.nodes.push_back(std::move(rows));
    how.node = of_rank_[{how.node, rank}] = NodeId{result_.model.nodes.size() - 1};
    return how;
  }

  void make(const RankCollective& each) {
    if (each.tensor.is_none() && each.terms.empty()) return make_loss(each);
    const std::vector<TensorId> made = each.terms.empty() ? std::vector{each.tensor} : each.terms;
    Exchanged exchanged{each.kind, std::nullopt, std::nullopt};
    const MaybeCut to = each.terms.empty() ? target(each.tensor, each.to) : MaybeCut{};
    if (each.kind == CollectiveKind::all_gather) exchanged.joined = tensor_[each.tensor];
    if (each.kind == CollectiveKind::reduce_scatter) exchanged.cut = to;
    for (std::size_t i = 0; i < each.count; ++i) {
      const OpId op{each.first + i};
      OpRecipe& how = result_.ops[op];
      how = collective_op(made_.graph, op, exchanged);
      for (std::size_t t = 0; i + ranks_ >= each.count && t < made.size(); ++t)
        how.results[t].like = local_.value(like_[made[t]], Cuts{to});
    }
  }

  const Graph& graph_;
  const TrainingRecipe& from_;
  const std::size_t ranks_;
  TensorParallelGraph made_;
  TensorNames names_;
  OpIndex ops_;
  TrainingRecipe result_;
  LocalModel local_;
  IdMap<TensorId, MaybeCut> tensor_;  // cut of what ranks have of the tensor
  IdMap<TensorId, ValueId> like_;     // the value with the shape of the whole tensor
  IdMap<ValueId, MaybeCut> value_;
  std::map<NodeId, CutNode> rules_;
  std::map<ValueId, MaybeCut> parameter_;  // parameters that are cut
  std::map<std::pair<ValueId, std::size_t>, ValueId> own_;
  std::map<std::pair<NodeId, std::size_t>, NodeId> of_rank_;  // nodes that depend on the rank
};

}  // namespace

RewrittenStep ranked_step(const Graph& graph, const TrainingRecipe& recipe, const TensorParallel& parallel) {
  if (parallel.ranks == 1) return {graph, recipe, 0};
  return RankedRecipe{graph, recipe, parallel}.run();
}

}  // namespace trainyard::detail
