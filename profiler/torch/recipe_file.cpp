#include "profiler/torch/recipe_file.hpp"

#include <fmt/format.h>

#include <array>
#include <ostream>
#include <span>
#include <string_view>
#include <variant>

#include "profiler/kernels/initial_values.hpp"
#include "profiler/kernels/step_program.hpp"
#include "profiler/kernels/views.hpp"
#include "profiler/run/cuda/plan.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/fnv.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/io/json/json_write.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

using detail::append_json;
using detail::json_string;
using kernels::InitialValues;
using kernels::Strided;

constexpr std::array<std::string_view, 8> kKinds{"input",   "forward", "backward", "add",
                                                 "scatter", "scatter", "update",   "relay"};
constexpr std::array<std::string_view, 5> kRoles{"activation", "input", "parameter", "buffer", "constant"};

/// Members of one JSON object, appended one by one.
class Members {
 public:
  explicit Members(std::string& out) : out_(out) { out_ += '{'; }
  std::string& key(std::string_view name) {
    if (out_.back() != '{') out_ += ", ";
    append_json(out_, name);
    return out_ += ": ";
  }
  template <class Value>
  void add(std::string_view name, const Value& value) {
    append_json(key(name), value);
  }
  template <class Items, class Write>
  void list(std::string_view name, const Items& items, const Write& write) {
    key(name) += '[';
    for (const auto& item : items) {
      if (out_.back() != '[') out_ += ", ";
      write(item);
    }
    out_ += ']';
  }
  template <class Number>
  void numbers(std::string_view name, const std::vector<Number>& items) {
    list(name, items, [&](Number item) { append_json(out_, item); });
  }
  void end() { out_ += '}'; }

 private:
  std::string& out_;
};

class RecipeWriter {
 public:
  RecipeWriter(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed, std::ostream& stream)
      : problem_(problem),
        graph_(problem.graph()),
        recipe_(recipe),
        model_(recipe.model),
        program_(graph_, recipe, seed, [](const std::string&, bool) { return nullptr; }),
        seed_(seed),
        stream_(stream) {}

  void write(const std::vector<std::pair<std::string, Schedule>>& schedules) {
    out_ = fmt::format(
        R"({{"format": "trainyard-recipe/1", "graph": {}, "cluster": {}, "seed": {}, "optimizer": "{}", "loss": {})",
        json_string(graph_.name()), json_string(problem_.cluster().name()), seed_, name_of(recipe_.optimizer),
        recipe_.loss.is_none() ? "null" : std::to_string(recipe_.loss.index()));
    rows("devices", problem_.devices(), [this](DeviceId id) { device(id); });
    rows("values", model_.values.ids(), [this](ValueId id) { value(id); });
    rows("nodes", model_.nodes.ids(), [this](NodeId id) { node(id); });
    rows("tensors", graph_.tensors(), [this](TensorId id) { tensor(id); });
    rows("ops", graph_.ops(), [this](OpId id) { op(id); });
    rows("schedules", schedules, [this](const auto& named) { schedule(named.first, named.second); });
    stream_ << out_ << "}\n";
  }

 private:
  template <class Items, class Write>
  void rows(std::string_view name, const Items& items, const Write& write) {
    out_ += fmt::format(",\n \"{}\": [", name);
    for (const auto& item : items) {
      out_ += out_.back() == '[' ? "\n  " : ",\n  ";
      write(item);
      detail::pass_on(out_, stream_);
    }
    out_ += ']';
  }

  void device(DeviceId id) {
    const Device& device = problem_.cluster().device(id);
    Members row{out_};
    row.add("name", device.name);
    row.add("kind", cost_kind(device));
    row.add("class", device.device_class);
    if (device.peak.value > 0) row.add("peak_flops_per_s", device.peak.value);
    if (device.memory_bandwidth.value > 0) row.add("memory_bytes_per_s", device.memory_bandwidth.value);
    row.end();
  }

  void value(ValueId id) {
    const Value& value = model_.values[id];
    Members row{out_};
    row.add("name", value.name);
    row.add("type", name_of(value.type));
    if (value.shape_known) row.numbers("shape", value.shape);
    row.add("role", kRoles[static_cast<std::size_t>(value.role)]);
    if (value.role != Value::Role::activation && value.shape_known) {
      const InitialValues& first = first_values_[id];
      using Rule = InitialValues::Rule;
      if (first.rule == Rule::integers) row.numbers("integers", value.integers);
      if (first.rule == Rule::reals) row.numbers("reals", value.reals);
      if (first.rule == Rule::filled) row.add("filled", first.number);
      if (first.rule == Rule::uniform) row.add("uniform", first.number);
      if (first.rule == Rule::normal) row.add("normal", 1.0);
      if (first.rule == Rule::below) row.add("below", first.below);
    }
    row.end();
  }

  void node(NodeId id) {
    const Node& node = model_.nodes[id];
    const auto value = [this](ValueId each) { out_ += each.is_none() ? "null" : std::to_string(each.index()); };
    Members row{out_};
    row.add("name", node.name);
    row.add("type", node.type);
    row.list("inputs", node.inputs, value);
    row.list("outputs", node.outputs, value);
    if (node.type == "BatchNormalization")
      row.key("batch_statistics") += uses_batch_statistics(model_, node) ? "true" : "false";
    if (!node.attributes.empty()) {
      row.key("attributes");
      Members attributes{out_};
      for (const auto& [name, attribute] : node.attributes) {
        if (const auto* whole = std::get_if<std::int64_t>(&attribute)) attributes.add(name, *whole);
        if (const auto* real = std::get_if<double>(&attribute)) attributes.add(name, *real);
        if (const auto* text = std::get_if<std::string>(&attribute)) attributes.add(name, *text);
        if (const auto* wholes = std::get_if<std::vector<std::int64_t>>(&attribute)) attributes.numbers(name, *wholes);
        if (const auto* reals = std::get_if<std::vector<double>>(&attribute)) attributes.numbers(name, *reals);
        if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute))
          attributes.list(name, *texts, [this](const std::string& each) { append_json(out_, each); });
      }
      attributes.end();
    }
    row.end();
  }

  void tensor(TensorId id) {
    Members row{out_};
    row.add("name", graph_.name(id));
    row.add("bytes", graph_.bytes(id).count);
    if (const Value* value = program_.value(id)) {
      row.add("type", name_of(value->type));
      row.numbers("shape", *program_.shape(id));
    }
    row.end();
  }

  /// Positions of a view's elements in a row-major array of this shape.
  void place(const Shape& shape, const Strided& view) {
    Members row{out_};
    row.numbers("shape", shape);
    row.numbers("strides", view.strides);
    row.add("offset", view.offset);
    row.end();
  }

  void operand(const Operand& operand) {
    // An operand that no op makes and no value holds is an output that the step leaves out, such as running statistics.
    if (operand.is_none() || (!operand.held.is_none() && model_.values[operand.held].role == Value::Role::activation)) {
      out_ += "null";
      return;
    }
    Members row{out_};
    if (operand.held.is_none())
      row.add("tensor", std::uint64_t{operand.tensor.index()});
    else
      row.add("value", std::uint64_t{operand.held.index()});
    views(row, operand.views);
    row.end();
  }

  void views(Members& row, const std::vector<ViewStep>& steps) {
    if (steps.empty()) return;
    std::size_t at = 0;
    row.list("views", steps, [&](const ViewStep& step) {
      const Node& node = model_.nodes[step.node];
      const Shape& shape = kernels::shape_after(model_, std::span{steps}.first(++at), {});
      const bool part = step.kind == ViewStep::Kind::part;
      const Strided view =
          part ? kernels::part_view(model_, node, step.index) : kernels::strided_view(model_, node, step.index);
      if (!view.dense && step.kind != ViewStep::Kind::undo) return place(shape, view);
      Members members{out_};
      members.numbers("shape", shape);
      if (!view.dense) {  // each element goes back to its place
        members.key("to");
        place(model_.values[node.outputs[0]].shape, view);
      }
      members.end();
    });
  }

  void operands(Members& row, std::string_view name, const std::vector<Operand>& operands) {
    if (!operands.empty()) row.list(name, operands, [this](const Operand& each) { operand(each); });
  }

  void op(OpId id) {
    using Kind = OpRecipe::Kind;
    const OpRecipe& how = recipe_.ops[id];
    Members row{out_};
    row.add("name", graph_.name(id));
    row.add("type", graph_.type(id));
    row.add("signature", graph_.signature(id));
    row.add("flops", graph_.flops(id).value);
    row.add("bytes", graph_.bytes_accessed(id).count);
    const bool expands = how.kind == Kind::view_gradient && model_.nodes[how.node].type == "Expand";
    row.add("kind", expands ? std::string_view{"sum"} : kKinds[static_cast<std::size_t>(how.kind)]);
    if (how.kind == Kind::forward || how.kind == Kind::backward) row.add("node", std::uint64_t{how.node.index()});
    if (how.kind == Kind::input || how.kind == Kind::update) row.add("value", std::uint64_t{how.value.index()});
    operands(row, "reads", how.reads);
    operands(row, "gradients", how.gradients);
    operands(row, "outputs", how.outputs);
    if (how.kind == Kind::slice_gradient)
      row.list("places", how.slices, [this](NodeId slice) {
        const Node& node = model_.nodes[slice];
        place(model_.values[node.outputs[0]].shape, kernels::strided_view(model_, node, 0));
      });
    if (how.kind == Kind::view_gradient && !expands) {
      const Node& node = model_.nodes[how.node];
      std::size_t part = 0;
      row.list("places", node.outputs, [&](ValueId output) {
        place(model_.values[output].shape, kernels::strided_view(model_, node, part++));
      });
    }
    if (!how.extras.empty())
      row.list("extras", how.extras, [this](TensorId each) { out_ += std::to_string(each.index()); });
    if (!how.results.empty())
      row.list("results", how.results, [&](const OpRecipe::Result& each) { result(how, each); });
    if (!graph_.after(id).empty())
      row.list("after", graph_.after(id), [this](OpId each) { out_ += std::to_string(each.index()); });
    row.end();
  }

  void result(const OpRecipe& how, const OpRecipe::Result& result) {
    Members row{out_};
    row.add("position", std::uint64_t{result.position});
    row.numbers("shape", kernels::result_value(model_, how, result).shape);
    operands(row, "parts", result.parts);
    row.end();
  }

  void schedule(const std::string& name, const Schedule& schedule) {
    if (!schedule.rewrites.empty())
      refuse("splits",
             "the schedule '" + name + "' rewrites the graph (\"splits\"), but a recipe has only the original graph",
             "place it with --no-splits");
    const Timeline timeline = simulate(problem_, schedule);
    Members row{out_};
    row.add("name", name);
    row.add("key", schedule_key(problem_, schedule));
    row.add("predicted_ns", timeline.makespan.count);
    row.list("placement", schedule.placement, [this](DeviceId device) { out_ += std::to_string(device.index()); });
    row.list("tasks", cuda::make_plan(problem_, schedule, timeline).items, [this](const cuda::PlanItem& item) {
      if (!item.is_transfer) {
        out_ += std::to_string(item.op.index());
        return;
      }
      Members task{out_};
      task.add("tensor", std::uint64_t{item.tensor.index()});
      task.add("from", std::uint64_t{item.from.index()});
      task.add("to", std::uint64_t{item.to.index()});
      task.list("links", problem_.cluster().route(item.from, item.to).channels,
                [this](ChannelId channel) { out_ += std::to_string(channel.index()); });
      task.end();
    });
    row.end();
  }

  const Problem& problem_;
  const Graph& graph_;
  const TrainingRecipe& recipe_;
  const Model& model_;
  const IdMap<ValueId, InitialValues> first_values_ = kernels::initial_values(model_);
  const kernels::StepProgram<kernels::ArrayOf<const float*>, const void*> program_;  // for shapes
  std::uint64_t seed_;
  std::ostream& stream_;
  std::string out_;
};

}  // namespace

std::string schedule_key(const Problem& problem, const Schedule& schedule) {
  Fnv1a sum;
  const auto add = [&](std::string_view word) { sum.add(word), sum.end(); };
  for (const OpId op : problem.ops())
    add(problem.graph().name(op)), add(problem.cluster().device(schedule.placement[op]).name);
  add(std::to_string(static_cast<int>(schedule.policy)));
  for (const double priority : schedule.priority) {
    std::string number;
    append_json(number, priority);
    add(number);
  }
  for (const auto& order : schedule.order)
    for (const OpId op : order) add(std::to_string(op.index()));
  if (schedule.urgent_links) add("urgent");
  return fmt::format("{:016x}", sum.value());
}

void write_recipe(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed,
                  const std::vector<std::pair<std::string, Schedule>>& schedules, std::ostream& out) {
  if (recipe.clip_norm > 0)
    refuse("clip", "a recipe for PyTorch cannot clip gradients yet", "make it of a step without clipping");
  RecipeWriter{problem, recipe, seed, out}.write(schedules);
}

}  // namespace trainyard
