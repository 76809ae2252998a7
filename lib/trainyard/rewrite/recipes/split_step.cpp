#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/local_model.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"
#include "trainyard/rewrite/split_op.hpp"

namespace trainyard::detail {
namespace {

class SplitRecipe {
 public:
  SplitRecipe(const Graph& graph, const TrainingRecipe& recipe, const SplitOp& split)
      : graph_(graph),
        from_(recipe),
        split_(split),
        made_(apply_rewrites(graph, std::vector<Rewrite>{split})),
        op_(*OpIndex{graph}.find(split.op)),
        names_(made_),
        result_(recipe),
        local_(result_.model, {split.parts}) {
    result_.ops.assign(made_.op_count(), {});
    find();
  }

  RewrittenStep run() {
    const OpIndex index{graph_};
    for (const OpId op : made_.ops()) {
      const auto original = index.find(made_.name(op));
      result_.ops[op] = original ? renamed(*original) : piece(op);
    }
    return {std::move(made_), std::move(result_), 0};
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw InputError({.code = "not-executed",
                      .message = fmt::format("executing '{}' ({}) in parts along its {} dimension is not supported: {}",
                                             split_.op, graph_.type(op_), name_of(split_.dimension), why),
                      .help = kPredicted});
  }
  const OpRecipe& how() const { return from_.ops[op_]; }
  const Node& node() const { return from_.model.nodes[how().node]; }
  const Shape& shape(ValueId value) const { return from_.model.values[value].shape; }

  /// Finds what each part computes of the node.
  void find() {
    if (how().kind != OpRecipe::Kind::forward && how().kind != OpRecipe::Kind::backward)
      refuse("it does not compute an operator of the model");
    std::vector<MaybeCut> inputs(node().inputs.size());
    MaybeCut outer;
    const bool batch = split_.dimension == SplitDimension::batch;
    const Shape& of = shape(batch ? node().inputs[0] : node().outputs[0]);
    const MaybeCut cut = even_cut(of, batch ? 0 : node().type == "Conv" ? 1 : of.size() - 1, split_.parts);
    if (!cut) refuse(fmt::format("{} cannot be divided into {} equal parts", text_of(of), split_.parts));
    (batch ? inputs[0] : outer) = cut;
    rule_ = cut_node(from_.model, node(), std::move(inputs), split_.parts, outer);
  }

  /// Recipe of an op that is not split. Its tensors keep their names.
  OpRecipe renamed(OpId op) const {
    OpRecipe how = from_.ops[op];
    for_each_tensor(how, [&](TensorId& tensor) { tensor = names_.at(graph_.name(tensor)); });
    return how;
  }

  /// Cut of a tensor whose view has the wanted cut.
  MaybeCut cut_before(const Operand& read, const MaybeCut& wanted) const {
    for (std::size_t d = 0; wanted && d < kMostDimensions; ++d) {
      const ValueId like = like_of(read.tensor);
      if (like.is_none() || d >= shape(like).size()) break;
      const MaybeCut cut = even_cut(shape(like), d, split_.parts);
      try {
        if (cut && local_.seen(read.views, Cuts{cut})[0] == wanted) return cut;
      } catch (const InputError&) {  // not along this dimension
      }
    }
    return std::nullopt;
  }
  /// The value with the tensor's shape.
  ValueId like_of(TensorId tensor) const {
    const OpRecipe& maker = from_.ops[graph_.producer(tensor)];
    for (const OpRecipe::Result& result : maker.results)
      for (const Operand& part : result.parts)
        if (part.tensor == tensor) {
          const ValueId value =
              maker.kind == OpRecipe::Kind::forward         ? from_.model.nodes[maker.node].outputs[result.position]
              : maker.kind == OpRecipe::Kind::backward      ? from_.model.nodes[maker.node].inputs[result.position]
              : maker.kind == OpRecipe::Kind::view_gradient ? from_.model.nodes[maker.node].inputs[0]
              : maker.value.is_none()                       ? result.like
                                                            : maker.value;
          return value.is_none() ? value : value_after(from_.model, part.views, value);
        }
    return ValueId::none();
  }
  std::string split_name(TensorId tensor) const { return fmt::format("{}/split/{}", split_.op, graph_.name(tensor)); }

  /// Calls with(operand, cut that the node wants) for each operand.
  template <class Recipe, class With>
  void each_read(Recipe& of, const With& with) const {
    for (std::size_t i = 0; i < of.reads.size(); ++i) with(of.reads[i], rule_.inputs[i]);
    for (std::size_t i = 0; i < of.outputs.size(); ++i) with(of.outputs[i], rule_.outputs[i]);
    for (std::size_t i = 0; i < of.gradients.size(); ++i) with(of.gradients[i], rule_.outputs[i]);
  }
  MaybeCut cut_of_result(const OpRecipe::Result& result) const {
    return (how().kind == OpRecipe::Kind::forward ? rule_.outputs : rule_.inputs)[result.position];
  }

  /// Recipe of a part, or of an op that divides what parts read or collects what they make.
  OpRecipe piece(OpId op) {
    std::string_view rest = made_.name(op).substr(split_.op.size());
    if (constexpr std::string_view kPart = "/part"; rest.starts_with(kPart)) {
      std::size_t part = 0;
      std::from_chars(rest.data() + kPart.size(), rest.data() + rest.size(), part);
      return part_of(part);
    }
    OpRecipe made;
    made.kind = OpRecipe::Kind::join;
    for (const TensorId input : made_.inputs(op)) made.reads.push_back({.tensor = input});
    for (const TensorId output : made_.outputs(op))
      made.results.push_back({.position = 0, .parts = {{.tensor = output}}});
    if (rest.starts_with("/split/")) {
      each_read(how(), [&](const Operand& read, const MaybeCut& wanted) {
        if (!read.tensor.is_none() && made_.name(op) == split_name(read.tensor)) made.cut = cut_before(read, wanted);
      });
      if (!made.cut) refuse(fmt::format("'{}' is not divided in the way it is read", made_.name(made_.inputs(op)[0])));
      return made;
    }
    if (rest.starts_with("/sum/")) made.kind = OpRecipe::Kind::sum;
    for (const OpRecipe::Result& result : how().results) {
      const TensorId tensor = result.parts[0].tensor;
      if (made_.name(*made_.outputs(op).begin()) != graph_.name(tensor)) continue;
      const MaybeCut cut = cut_of_result(result);
      if (cut.has_value() != (made.kind == OpRecipe::Kind::join))
        refuse(fmt::format("'{}' is a {} of its parts", graph_.name(tensor), cut ? "sum" : "concatenation"));
      made.joined = cut;
      made.results[0].like = like_of(tensor);
    }
    return made;
  }

  OpRecipe part_of(std::size_t part) {
    OpRecipe made = how();
    each_read(made, [&](Operand& read, const MaybeCut& wanted) {
      if (read.is_none()) return;
      if (!read.held.is_none() && from_.model.values[read.held].role == Value::Role::activation) return;
      if (!read.tensor.is_none() && read.held.is_none()) {
        const auto divided = names_.find(fmt::format("{}:{}", split_name(read.tensor), part));
        if (divided) {
          if (!wanted) refuse(fmt::format("'{}' is read whole", graph_.name(read.tensor)));
          static_cast<void>(local_.through(read.views, Cuts{cut_before(read, wanted)}));
          read.tensor = *divided;
          return;
        }
      }
      if (!read.tensor.is_none()) {
        const auto whole = names_.find(graph_.name(read.tensor));
        if (!whole || names_.find(fmt::format("{}:0", split_name(read.tensor))))
          refuse(fmt::format("'{}' is divided differently", graph_.name(read.tensor)));
        read.tensor = *whole;
      }
      if (wanted) read.parts.push_back({wanted, part, split_.parts});
    });
    for (TensorId& extra : made.extras) extra = names_.at(fmt::format("{}/part{}", graph_.name(extra), part));
    std::vector<Cuts> inputs, outputs;
    for (const MaybeCut& cut : rule_.inputs) inputs.push_back({cut});
    for (const MaybeCut& cut : rule_.outputs) outputs.push_back({cut});
    for (OpRecipe::Result& result : made.results)
      for (Operand& each : result.parts) {
        if (!each.views.empty()) refuse("it makes several tensors from one array");
        each.tensor = names_.at(fmt::format("{}/part{}", graph_.name(each.tensor), part));
      }
    made.node = local_.node(made.node, inputs, outputs);
    return made;
  }

  const Graph& graph_;
  const TrainingRecipe& from_;
  const SplitOp& split_;
  Graph made_;
  const OpId op_;
  TensorNames names_;
  TrainingRecipe result_;
  LocalModel local_;
  CutNode rule_;
};

}  // namespace

RewrittenStep split_step(const Graph& graph, const TrainingRecipe& recipe, const SplitOp& split) {
  return SplitRecipe{graph, recipe, split}.run();
}

}  // namespace trainyard::detail
