#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
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

/// A block copy between arrays [outer, extent, inner]: to[o][to_begin + k][i] = from[o][from_begin + k][i] for k <
/// count.
struct Slab {
  std::size_t outer = 1, inner = 1, to_extent = 0, to_begin = 0, from_extent = 0, from_begin = 0, count = 0;
};

template <class Number>
void copy_slab(Number* to, const Number* from, const Slab& slab) {
  for (std::size_t o = 0; o < slab.outer; ++o)
    std::copy_n(from + (o * slab.from_extent + slab.from_begin) * slab.inner, slab.count * slab.inner,
                to + (o * slab.to_extent + slab.to_begin) * slab.inner);
}

/// Shape of a part of an array of this shape.
Shape part_shape(const Shape& shape, const Part& part);
/// Calls take(slab) for the slabs of which a part consists, from the whole array to the part.
template <class Take>
void each_slab(const Shape& whole, const Part& part, const Take& take) {
  if (!part.cut) {
    const auto all = static_cast<std::size_t>(elements(whole));
    const std::size_t begin = all * part.index / part.of, end = all * (part.index + 1) / part.of;
    return take(Slab{.to_extent = end - begin, .from_extent = all, .from_begin = begin, .count = end - begin});
  }
  Slab slab{.to_extent = static_cast<std::size_t>(part_shape(whole, part)[part.cut->dimension]),
            .from_extent = static_cast<std::size_t>(whole[part.cut->dimension])};
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (i != part.cut->dimension)
      (i < part.cut->dimension ? slab.outer : slab.inner) *= static_cast<std::size_t>(whole[i]);
  for (const std::int64_t block : part.cut->blocks) {
    slab.count = static_cast<std::size_t>(block);
    slab.from_begin += part.index * slab.count;
    take(slab);
    slab.from_begin += (part.of - part.index) * slab.count;
    slab.to_begin += slab.count;
  }
}

/// Numbers of a part of an array, of a part of that part, and so on.
template <class Number>
std::vector<Number> numbers_of_parts(std::vector<Number> numbers, Shape shape, std::span<const Part> parts) {
  for (const Part& part : parts) {
    Shape next = part_shape(shape, part);
    std::vector<Number> made(static_cast<std::size_t>(elements(next)));
    each_slab(shape, part, [&](const Slab& slab) { copy_slab(made.data(), numbers.data(), slab); });
    numbers = std::move(made);
    shape = std::move(next);
  }
  return numbers;
}
/// Positions of the part's elements in the whole array.
std::vector<std::size_t> places_of_parts(const Shape& shape, std::span<const Part> parts);

/// The model's value that gives an op's result its shape and type.
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

/// Interpreter of a training recipe, for CPUs and GPUs alike. It determines which arrays an op reads, through which
/// views, which kernel runs on them, and where its results go. A device implements these operations:
///
///     tensor(TensorId), held(ValueId)    location of a tensor's elements, and of a parameter's or constant's
///     extra(TensorId)                    bytes that a forward op keeps for its backward op
///     scratch(shape, like)               an array until the end of the op, of the type of a value or another array
///     fill, copy, add, sum_to_shape      element-wise; the array that is written comes first
///     gather(to, from, shape, view)      to[i] = from[view(i)] over the elements i of `shape`
///     scatter(to, from, shape, view, add)  to[view(i)] = (or +=) from[i]
///     input(ValueId, to), run(kernel, arrays)
///     update(ValueId, gradient, range)   updates a range of the parameter, or all of it
///     loss(array, share)                 counts the array as this share of the step's loss
///     relay(to, from)                    copies the bytes of a tensor to another
///
/// those for clipping, which only CPUs have,
///
///     squares(to, data, count)           the sum of the squares of so many elements
///     clip(to, squares, limit)           the scale that limits the norm
///     scale(to, from, scale)             multiplies by the only element of `scale`
///
/// and, to run rewritten graphs (ops of Kind::sum, join, rest; operands in parts),
///
///     updated(ValueId)                   a parameter as this step leaves it
///     from(data, offset)                 the elements from this offset on
///     copy_slab(to, from, slab)
///     store(ValueId, from, range)        stores elements of the parameter as this step leaves it
template <class Array, class Kernel>
class StepProgram {
 public:
  /// find(type, backward): the kernel of an operator, or null.
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
        compiled.arrays.seed = (seed << 20) + (how.drawn ? how.drawn->node : how.node).index();
        if (how.drawn) {
          auto places = places_of_parts(model_.values[how.drawn->of].shape, how.drawn->parts);
          compiled.arrays.places.assign(places.begin(), places.end());
        }
      }
      ops_.push_back(std::move(compiled));
      if (rearranges(how)) continue;
      for (const OpRecipe::Result& result : how.results)
        for (const Operand& part : result.parts) {
          const Value& value = result_value(model_, how, result);
          values_[part.tensor] = &value;
          shapes_[part.tensor] = &shape_after(model_, part.views, value.shape);
        }
    }
    for (const OpId op : graph.topological_order()) {
      const OpRecipe& how = recipe.ops[op];
      if (how.kind == OpRecipe::Kind::relay) {
        values_[relayed(op)] = values_[graph.inputs(op)[0]];
        shapes_[relayed(op)] = shapes_[graph.inputs(op)[0]];
      }
      if (rearranges(how)) shape_results(how);
      for (const auto* list : {&how.reads, &how.outputs, &how.gradients})
        for (const Operand& operand : *list)
          if (!operand.parts.empty()) shape_parts(operand);
    }
  }

  /// Shape of a tensor, and the value that gives its type; null for an extra.
  const Shape* shape(TensorId tensor) const { return shapes_[tensor]; }
  const Value* value(TensorId tensor) const { return values_[tensor]; }

  /// A finding ("unsupported-op") for each operator without a kernel that supports what the node asks, among the ops
  /// with here(op). asked(model, node): as why_not().
  template <class Asked, class Here>
  std::vector<Finding> missing_kernels(std::string_view backend, const std::string& help, const Asked& asked,
                                       const Here& here) const {
    std::map<std::string, std::string> first;  // the first op, by what is missing
    for (const OpId op : graph_.ops()) {
      const OpRecipe& how = recipe_.ops[op];
      if (!has_kernel(how) || !here(op)) continue;
      const Node& node = model_.nodes[how.node];
      const std::string why = asked(model_, node);
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
                                       ", for example in '" + op + "'",
                            .help = help});
    return findings;
  }

  /// Whether the op makes the loss, or a share of it.
  bool gives_loss(OpId op) const {
    const OpRecipe& how = recipe_.ops[op];
    if (how.kind != OpRecipe::Kind::forward || recipe_.loss.is_none()) return false;
    return how.loss_share || model_.nodes[how.node].outputs[0] == recipe_.loss;
  }

  /// Runs an op. Ops that touch one parameter must not run at once.
  template <class Device>
  void run(OpId op, Device& device) {
    const OpRecipe& how = recipe_.ops[op];
    if (how.kind == OpRecipe::Kind::rest) return;
    if (has_kernel(how)) {
      run_node(ops_[op], how, device);
      if (gives_loss(op)) device.loss(ops_[op].arrays.out[0], how.loss_share.value_or(1));
      return;
    }
    if (rearranges(how)) return rearrange(how, device);
    if (how.kind == OpRecipe::Kind::relay) return device.relay(relayed(op), graph_.inputs(op)[0]);
    if (how.kind == OpRecipe::Kind::update) return device.update(how.value, scaled_gradient(how, device), how.range);
    const OpRecipe::Result& result = how.results[0];
    const Array to = target(how, result, device);
    if (how.kind == OpRecipe::Kind::input)
      device.input(how.value, to);
    else if (how.kind == OpRecipe::Kind::add_gradients && how.reads.size() == 1)
      device.copy(to, read(how.reads[0], device));
    else if (how.kind == OpRecipe::Kind::add_gradients)
      device.add(to, read(how.reads[0], device), read(how.reads[1], device));
    else if (how.kind == OpRecipe::Kind::slice_gradient)
      add_slices(how, to, device);
    else if (how.kind == OpRecipe::Kind::squares)
      add_squares(how, to, device);
    else if (how.kind == OpRecipe::Kind::clip)
      device.clip(to, read(how.reads[0], device), recipe_.clip_norm);
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
    Array array = seen(operand.views, whole(operand, device), device);
    if (operand.parts.empty()) return array;
    std::size_t number = 0;
    for (const Shape* shape : part_shapes_.at(&operand)) {
      const Array to = device.scratch(*shape, array);
      each_slab(*array.shape, operand.parts[number++],
                [&](const Slab& slab) { device.copy_slab(to.data, array.data, slab); });
      array = to;
    }
    return array;
  }
  template <class Device>
  Array whole(const Operand& operand, Device& device) const {
    if (operand.held.is_none()) return {device.tensor(operand.tensor), shapes_[operand.tensor]};
    const Shape* shape = &model_.values[operand.held].shape;
    if (!operand.tensor.is_none()) return {device.from(device.tensor(operand.tensor), operand.offset), shape};
    return {operand.updated ? device.updated(operand.held) : device.held(operand.held), shape};
  }

  // --- clipping ---

  template <class Device>
  void add_squares(const OpRecipe& how, const Array& to, Device& device) const {
    const Array gradient = read(how.reads[0], device);
    const Range of = how.range.value_or(Range{.count = gradient.size()});
    device.squares(to, device.from(gradient.data, of.from), of.count);
  }
  template <class Device>
  Array scaled_gradient(const OpRecipe& how, Device& device) const {
    const Array gradient = read(how.reads[0], device);
    if (how.reads.size() == 1) return gradient;
    const Array to = device.scratch(*gradient.shape, gradient);
    device.scale(to, gradient, read(how.reads[1], device));
    return to;
  }

  // --- for rewrites: sums, and arrays that are joined and divided ---

  static bool rearranges(const OpRecipe& how) {
    return how.kind == OpRecipe::Kind::sum || how.kind == OpRecipe::Kind::join;
  }
  const Shape* keep(Shape shape) { return &kept_shapes_.emplace_back(std::move(shape)); }
  const Shape& before_parts(const Operand& operand) const {
    return shape_after(model_, operand.views,
                       operand.held.is_none() ? *shapes_[operand.tensor] : model_.values[operand.held].shape);
  }
  void shape_parts(const Operand& operand) {
    std::vector<const Shape*>& shapes = part_shapes_[&operand];
    if (!shapes.empty()) return;
    const Shape* shape = &before_parts(operand);
    for (const Part& part : operand.parts) shapes.push_back(shape = keep(part_shape(*shape, part)));
  }
  const Shape& shape_of(const Operand& operand) const {
    return operand.parts.empty() ? before_parts(operand) : *part_shapes_.at(&operand).back();
  }
  /// Shape of the reads joined.
  Shape joined_shape(const OpRecipe& how) const {
    Shape shape = shape_of(how.reads[0]);
    if (how.reads.size() == 1) return shape;
    std::int64_t all = 0;
    for (const Operand& read : how.reads)
      all += how.joined ? shape_of(read)[how.joined->dimension] : elements(shape_of(read));
    if (!how.joined) return {all};
    shape[how.joined->dimension] = all;
    return shape;
  }
  Part part_of(const OpRecipe& how, std::size_t result) const {
    return {how.cut, how.first + result, how.of > 0 ? how.of : how.results.size()};
  }
  void shape_results(const OpRecipe& how) {
    for (const Operand& read : how.reads)
      if (!read.parts.empty()) shape_parts(read);
    const Shape all = how.kind == OpRecipe::Kind::sum ? shape_of(how.reads[0]) : joined_shape(how);
    const Operand& first = how.reads[0];
    const Value* value = first.held.is_none() ? values_[first.tensor] : &model_.values[first.held];
    std::size_t number = 0;
    for (const OpRecipe::Result& result : how.results) {
      const TensorId tensor = result.parts[0].tensor;
      const bool divided = how.kind == OpRecipe::Kind::join && (how.results.size() > 1 || how.of > 0);
      values_[tensor] = result.like.is_none() ? value : &model_.values[result.like];
      shapes_[tensor] = !result.like.is_none() ? &values_[tensor]->shape
                        : divided              ? keep(part_shape(all, part_of(how, number)))
                                               : keep(all);
      ++number;
    }
  }

  template <class Device>
  void rearrange(const OpRecipe& how, Device& device) const {
    const TensorId first = how.results[0].parts[0].tensor;
    const Array to{device.tensor(first), shapes_[first]};
    if (how.kind == OpRecipe::Kind::sum) {
      const Array one = read(how.reads[0], device);
      if (how.reads.size() == 1) device.copy({to.data, one.shape}, one);
      for (std::size_t i = 1; i < how.reads.size(); ++i) {
        const Array sum{to.data, one.shape}, next = read(how.reads[i], device);
        device.add(sum, i == 1 ? one : sum, {next.data, one.shape});
      }
    } else {
      join(how, to, device);
    }
    for (const OpRecipe::Store& store : how.stores) device.store(store.parameter, to.data, store.range);
  }
  template <class Device>
  void join(const OpRecipe& how, const Array& to, Device& device) const {
    const bool divides = how.results.size() > 1 || how.of > 0;
    const Shape shape = joined_shape(how);
    Array all;
    if (how.reads.size() == 1) {
      all = read(how.reads[0], device);
    } else {
      all = divides ? device.scratch(shape, to) : to;
      std::size_t begin = 0;  // of the next part, if they lie end to end
      for (std::size_t i = 0; i < how.reads.size(); ++i) {
        const Array part = read(how.reads[i], device);
        if (how.joined) {
          each_slab(shape, {how.joined, i, how.reads.size()}, [&](const Slab& slab) {
            device.copy_slab(
                all.data, part.data,
                {slab.outer, slab.inner, slab.from_extent, slab.from_begin, slab.to_extent, slab.to_begin, slab.count});
          });
        } else {
          device.copy_slab(all.data, part.data, {.to_begin = begin, .count = part.size()});
          begin += part.size();
        }
      }
      if (!divides) return;
    }
    std::size_t begin = 0;
    for (std::size_t i = 0; i < how.results.size(); ++i) {
      const TensorId tensor = how.results[i].parts[0].tensor;
      const Array made{device.tensor(tensor), shapes_[tensor]};
      if (how.results[i].like.is_none() || how.cut) {
        each_slab(shape, part_of(how, i), [&](const Slab& slab) { device.copy_slab(made.data, all.data, slab); });
      } else {  // arrays of different sizes
        device.copy_slab(made.data, all.data, {.from_begin = begin, .count = made.size()});
        begin += made.size();
      }
    }
  }

  /// The array seen through the steps: the same memory if they only change its shape, otherwise a copy.
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
      if (step.kind == ViewStep::Kind::undo)  // an alias has equally many elements: each goes back to its place
        device.scatter(to, array, model_.values[node.outputs[0]].shape, view, false);
      else
        device.gather(to, array, shape, view);
      array = to;
    }
    return array;
  }

  /// The array that the op writes: the tensor itself, or scratch that deliver() divides.
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
      device.fill(arrays.dy[0], static_cast<float>(how.seed));
    }
    std::vector<Array>& results = backward ? arrays.dx : arrays.out;
    std::ranges::fill(arrays.dx, Array{});
    for (const OpRecipe::Result& result : how.results) results[result.position] = target(how, result, device);
    arrays.extra.clear();
    for (const TensorId extra : how.extras) arrays.extra.push_back(device.extra(extra));
    device.run(op.kernel, arrays);
    for (const OpRecipe::Result& result : how.results) deliver(result, results[result.position], device);
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
  std::deque<Shape> kept_shapes_;
  std::map<const Operand*, std::vector<const Shape*>> part_shapes_;
};

}  // namespace trainyard::kernels
