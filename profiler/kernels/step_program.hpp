#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/kernels/arrays.hpp"
#include "profiler/kernels/views.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::kernels {

/// Constants of the optimizers.
inline constexpr float kLearningRate = 1e-3F, kMomentum = 0.9F, kFirstDecay = 0.9F, kSecondDecay = 0.999F;

/// Bias corrections of Adam's two moments at update `step`, from 1.
struct AdamCorrection {
  float first, second;
  explicit AdamCorrection(std::int64_t step)
      : first(1 - std::pow(kFirstDecay, static_cast<float>(step))),
        second(1 - std::pow(kSecondDecay, static_cast<float>(step))) {}
};

/// The model's value whose shape and type the result of an op has.
const Value& result_value(const Model& model, const OpRecipe& op, const OpRecipe::Result& result);

/// FNV-1a over the bits of all parameters; `numbers(id)` gives those of one.
template <class Numbers>
std::uint64_t parameter_checksum(const Model& model, const Numbers& numbers) {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (const ValueId id : model.values.ids()) {
    if (model.values[id].role != Value::Role::parameter) continue;
    for (const float x : numbers(id)) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof bits);
      sum = (sum ^ bits) * 0x100000001b3ULL;
    }
  }
  return sum;
}

/// The interpreter of a training recipe, for CPUs and GPUs alike: which arrays an op reads, through which views, which
/// kernel runs on them, and where its results go. What it means to do so is up to a device, which has
///
///     tensor(TensorId), held(ValueId)    where the elements of a tensor, of a parameter or constant lie
///     extra(TensorId)                    bytes that a forward op keeps for its backward op
///     scratch(shape, like)               an array until the end of the op, of the type of a value or another array
///     fill, copy, add, sum_to_shape      element-wise; the array that is written comes first
///     gather(to, from, shape, view)      to[i] = from[view(i)] over the elements i of `shape`
///     scatter(to, from, shape, view, add)  to[view(i)] = (or +=) from[i]
///     input(ValueId, to), update(ValueId, gradient), loss(array), run(kernel, arrays)
///     relay(to, from)                    copies the bytes of a tensor to another
template <class Array, class Kernel>
class StepProgram {
 public:
  /// find(type, backward) is the kernel of an operator, or null.
  template <class Find>
  StepProgram(const Graph& graph, const TrainingRecipe& recipe, std::uint64_t seed, const Find& find)
      : graph_(graph), recipe_(recipe), model_(recipe.model) {
    static const Node kNoNode{};
    shapes_.assign(graph.tensor_count(), nullptr);
    values_.assign(graph.tensor_count(), nullptr);
    for (const OpId op : graph.ops()) {
      const OpRecipe& how = recipe.ops[op];
      const Node& node = how.node.is_none() ? kNoNode : model_.nodes[how.node];
      Compiled compiled{.arrays = {.model = model_, .node = node, .in = {}, .out = {}, .dy = {}, .dx = {}}};
      if (has_kernel(how)) {
        const bool backward = how.kind == OpRecipe::Kind::backward;
        compiled.kernel = find(node.type, backward);
        compiled.arrays.in.resize(node.inputs.size());
        compiled.arrays.out.resize(node.outputs.size());
        if (backward) compiled.arrays.dy.resize(node.outputs.size()), compiled.arrays.dx.resize(node.inputs.size());
        compiled.arrays.seed = (seed << 20) + how.node.index();
      }
      ops_.push_back(std::move(compiled));
      for (const OpRecipe::Result& result : how.results)
        for (const Operand& part : result.parts) {
          const Value& value = result_value(model_, how, result);
          values_[part.tensor] = &value;
          shapes_[part.tensor] = &shape_after(model_, part.views, value.shape);
        }
      if (how.kind == OpRecipe::Kind::relay) {  // it comes after what makes the tensor
        values_[relayed(op)] = values_[graph.inputs(op)[0]];
        shapes_[relayed(op)] = shapes_[graph.inputs(op)[0]];
      }
    }
  }

  /// The shape of a tensor, and the value whose type it has; null for an extra.
  const Shape* shape(TensorId tensor) const { return shapes_[tensor]; }
  const Value* value(TensorId tensor) const { return values_[tensor]; }

  /// A finding ("unsupported-op") for each operator without a kernel for what it is asked, over the ops with here(op).
  template <class Here>
  std::vector<Finding> missing_kernels(std::string_view backend, const std::string& help, const Here& here) const {
    std::map<std::string, std::string> first;  // op, by what is missing
    for (const OpId op : graph_.ops()) {
      const OpRecipe& how = recipe_.ops[op];
      if (!has_kernel(how) || !here(op)) continue;
      const Node& node = model_.nodes[how.node];
      const std::string why = why_not(node);
      if (!ops_[op].kernel)
        first.emplace(node.type + (how.kind == OpRecipe::Kind::backward ? " (its gradient)" : ""), graph_.name(op));
      else if (!why.empty())
        first.emplace(node.type + " " + why, graph_.name(op));
    }
    std::vector<Finding> findings;
    for (const auto& [what, op] : first)
      if (findings.size() < 20)
        findings.push_back({.code = "unsupported-op",
                            .message = "the " + std::string{backend} + " backend cannot run the operator " + what +
                                       ", as in '" + op + "'",
                            .help = help});
    return findings;
  }

  /// Ops that touch one parameter must not run at once.
  template <class Device>
  void run(OpId op, Device& device) {
    const OpRecipe& how = recipe_.ops[op];
    if (has_kernel(how)) return run_node(ops_[op], how, device);
    if (how.kind == OpRecipe::Kind::relay) return device.relay(relayed(op), graph_.inputs(op)[0]);
    if (how.kind == OpRecipe::Kind::update) return device.update(how.value, read(how.reads[0], device));
    const OpRecipe::Result& result = how.results[0];
    const Array to = target(how, result, device);
    if (how.kind == OpRecipe::Kind::input)
      device.input(how.value, to);
    else if (how.kind == OpRecipe::Kind::add_gradients)
      device.add(to, read(how.reads[0], device), read(how.reads[1], device));
    else if (how.kind == OpRecipe::Kind::slice_gradient)
      add_slices(how, to, device);
    else
      join_view_gradients(how, to, device);
    deliver(result, to, device);
  }

 private:
  struct Compiled {
    OpArraysOf<Array> arrays;
    Kernel kernel = nullptr;
  };

  TensorId relayed(OpId op) const { return *graph_.outputs(op).begin(); }

  static bool has_kernel(const OpRecipe& how) {
    return how.kind == OpRecipe::Kind::forward || how.kind == OpRecipe::Kind::backward;
  }

  template <class Device>
  Array read(const Operand& operand, Device& device) const {
    if (operand.is_none()) return {};
    const Array array = operand.held.is_none() ? Array{device.tensor(operand.tensor), shapes_[operand.tensor]}
                                               : Array{device.held(operand.held), &model_.values[operand.held].shape};
    return seen(operand.views, array, device);
  }

  /// The array seen through the steps: the same memory where they only change its shape, otherwise a copy.
  template <class Device>
  Array seen(std::span<const ViewStep> views, Array array, Device& device) const {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const ViewStep& step = views[i];
      const Node& node = model_.nodes[step.node];
      const Shape& shape = shape_after(model_, views.subspan(0, i + 1), *array.shape);
      const bool part = step.kind == ViewStep::Kind::part;
      const Strided view = part ? part_view(model_, node, step.index) : strided_view(model_, node, step.index);
      if (view.dense) {
        array.shape = &shape;
        continue;
      }
      const Array to = device.scratch(shape, array);
      if (step.kind == ViewStep::Kind::undo)  // an alias has as many elements: each goes back to its place
        device.scatter(to, array, model_.values[node.outputs[0]].shape, view, false);
      else
        device.gather(to, array, shape, view);
      array = to;
    }
    return array;
  }

  /// The array that the op writes: the tensor itself, or scratch that deliver() cuts up.
  template <class Device>
  Array target(const OpRecipe& how, const OpRecipe::Result& result, Device& device) const {
    const Value& value = result_value(model_, how, result);
    if (is_whole(result)) return {device.tensor(result.parts[0].tensor), &value.shape};
    return device.scratch(value.shape, value);
  }
  template <class Device>
  void deliver(const OpRecipe::Result& result, const Array& array, Device& device) const {
    if (is_whole(result)) return;
    for (const Operand& part : result.parts)
      device.copy({device.tensor(part.tensor), shapes_[part.tensor]}, seen(part.views, array, device));
  }
  static bool is_whole(const OpRecipe::Result& result) {
    return result.parts.size() == 1 && result.parts[0].views.empty();
  }

  template <class Device>
  void run_node(Compiled& op, const OpRecipe& how, Device& device) const {
    OpArraysOf<Array>& arrays = op.arrays;
    const bool backward = how.kind == OpRecipe::Kind::backward;
    for (std::size_t i = 0; i < how.reads.size(); ++i) arrays.in[i] = read(how.reads[i], device);
    for (std::size_t i = 0; i < how.outputs.size(); ++i) arrays.out[i] = read(how.outputs[i], device);
    for (std::size_t i = 0; i < how.gradients.size(); ++i) arrays.dy[i] = read(how.gradients[i], device);
    const auto given = arrays.dy.begin() + static_cast<std::ptrdiff_t>(how.gradients.size());
    if (backward && std::none_of(arrays.dy.begin(), given, [](const Array& dy) { return static_cast<bool>(dy); })) {
      const Value& loss = model_.values[arrays.node.outputs[0]];  // where gradients start
      arrays.dy[0] = device.scratch(loss.shape, loss);
      device.fill(arrays.dy[0], 1);
    }
    std::vector<Array>& results = backward ? arrays.dx : arrays.out;
    std::ranges::fill(arrays.dx, Array{});
    for (const OpRecipe::Result& result : how.results) results[result.position] = target(how, result, device);
    arrays.extra.clear();
    for (const TensorId extra : how.extras) arrays.extra.push_back(device.extra(extra));
    device.run(op.kernel, arrays);
    for (const OpRecipe::Result& result : how.results) deliver(result, results[result.position], device);
    if (!backward && !recipe_.loss.is_none() && arrays.node.outputs[0] == recipe_.loss) device.loss(arrays.out[0]);
  }

  template <class Device>
  void add_slices(const OpRecipe& how, const Array& to, Device& device) const {
    device.fill(to, 0);
    for (std::size_t i = 0; i < how.reads.size(); ++i) {
      const Node& slice = model_.nodes[how.slices[i]];
      device.scatter(to, read(how.reads[i], device), model_.values[slice.outputs[0]].shape,
                     strided_view(model_, slice, 0), true);
    }
  }

  template <class Device>
  void join_view_gradients(const OpRecipe& how, const Array& to, Device& device) const {
    const Node& node = model_.nodes[how.node];
    if (node.type == "Expand") return device.sum_to_shape(to, read(how.reads[0], device));
    device.fill(to, 0);  // a Split: each part at its place
    for (std::size_t i = 0; i < how.reads.size(); ++i)
      if (const Array from = read(how.reads[i], device))
        device.scatter(to, from, *from.shape, strided_view(model_, node, i), false);
  }

  const Graph& graph_;
  const TrainingRecipe& recipe_;
  const Model& model_;
  IdMap<TensorId, const Shape*> shapes_;
  IdMap<TensorId, const Value*> values_;
  IdMap<OpId, Compiled> ops_;
};

}  // namespace trainyard::kernels
