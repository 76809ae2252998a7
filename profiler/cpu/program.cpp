#include "profiler/cpu/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "profiler/cpu/broadcast.hpp"
#include "profiler/cpu/matrix.hpp"
#include "profiler/cpu/views.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cpu {
namespace {

constexpr float kLearningRate = 1e-3F, kMomentum = 0.9F, kFirstDecay = 0.9F, kSecondDecay = 0.999F, kEpsilon = 1e-8F;

const std::string& kernel_type(const Model& model, const OpRecipe& op) { return model.nodes[op.node].type; }

}  // namespace

Program::Program(const Graph& graph, const TrainingRecipe& recipe, std::uint64_t seed)
    : graph_(graph), recipe_(recipe), model_(recipe.model), seed_(seed) {
  bytes_.assign(graph.tensor_count(), 0);
  shapes_.assign(graph.tensor_count(), nullptr);
  ops_ = IdMap<OpId, Compiled>{std::vector<Compiled>{}};
  std::map<std::string, std::string> missing;  // operator -> first op
  for (const OpId op : graph.ops()) {
    const OpRecipe& how = recipe.ops[op];
    static const Node kNoNode{};
    const Node& node = how.node.is_none() ? kNoNode : model_.nodes[how.node];
    Compiled compiled{.arrays = {.model = model_, .node = node, .in = {}, .out = {}, .dy = {}, .dx = {}}};
    const bool forward = how.kind == OpRecipe::Kind::forward, backward = how.kind == OpRecipe::Kind::backward;
    if (forward || backward) {
      const OpKernels* kernels = find_kernels(kernel_type(model_, how));
      compiled.kernel = !kernels ? nullptr : forward ? kernels->forward : kernels->backward;
      if (!compiled.kernel)
        missing.emplace(kernel_type(model_, how) + (backward ? " (its gradient)" : ""), std::string{graph.name(op)});
      else if (const std::string why = why_not(node); !why.empty())
        missing.emplace(kernel_type(model_, how) + " " + why, std::string{graph.name(op)});
      compiled.arrays.in.resize(node.inputs.size());
      compiled.arrays.out.resize(node.outputs.size());
      if (backward) compiled.arrays.dy.resize(node.outputs.size()), compiled.arrays.dx.resize(node.inputs.size());
      compiled.arrays.seed = (seed << 20) + how.node.index();
    }
    ops_.push_back(std::move(compiled));
    for (const OpRecipe::Result& result : how.results)
      for (const Operand& part : result.parts) {
        const Shape& shape = shape_after(model_, part.views, result_shape(how, result));
        shapes_[part.tensor] = &shape;
        bytes_[part.tensor] = static_cast<std::size_t>(elements(shape)) * sizeof(float);
      }
  }
  if (!missing.empty()) {
    std::vector<Finding> findings;
    for (const auto& [type, op] : missing)
      if (findings.size() < 20)
        findings.push_back({.code = "unsupported-op",
                            .message = "the cpu backend cannot run the operator " + type + ", as in '" + op + "'",
                            .help = "`trainyard simulate` predicts it all the same"});
    throw InputError{std::move(findings)};
  }
  for (const TensorId tensor : graph.tensors())
    bytes_[tensor] = std::max(bytes_[tensor], static_cast<std::size_t>(graph.bytes(tensor).count));
  for (const OpId op : graph.ops()) {  // what is kept for a gradient may count its elements in those of the values
    const OpRecipe& how = recipe.ops[op];
    if (how.kind != OpRecipe::Kind::forward) continue;
    const std::int64_t element = bytes_per_element(model_.values[model_.nodes[how.node].outputs[0]].type);
    for (const TensorId extra : how.extras)
      if (element < 4) bytes_[extra] *= static_cast<std::size_t>(4 / std::max<std::int64_t>(1, element));
  }
  const std::size_t values = model_.values.size();
  held_.assign(values, {});
  inputs_.assign(values, {});
  momentum_.assign(values, {});
  updated_.assign(values, {});
  variance_.assign(values, {});
  steps_.assign(values, 0);
  reset();
}

const Shape& Program::result_shape(const OpRecipe& op, const OpRecipe::Result& result) const {
  switch (op.kind) {
    case OpRecipe::Kind::forward:
      return model_.values[model_.nodes[op.node].outputs[result.position]].shape;
    case OpRecipe::Kind::backward:
      return model_.values[model_.nodes[op.node].inputs[result.position]].shape;
    case OpRecipe::Kind::view_gradient:
      return model_.values[model_.nodes[op.node].inputs[0]].shape;
    default:
      return model_.values[op.value].shape;
  }
}

Array Program::resolve(const Operand& operand, std::byte* const* tensors) {
  if (operand.is_none()) return {};
  Array array;
  if (!operand.held.is_none())
    array = {held_[operand.held].data(), &model_.values[operand.held].shape};
  else
    array = {reinterpret_cast<float*>(tensors[operand.tensor.index()]), shapes_[operand.tensor]};
  return operand.views.empty() ? array : seen(model_, operand.views, array);
}

/// Where the op writes the result: the tensor itself, or scratch that scatter() cuts up.
Array Program::target(const OpRecipe& op, const OpRecipe::Result& result, std::byte* const* tensors) {
  const Shape& shape = result_shape(op, result);
  if (result.parts.size() == 1 && result.parts[0].views.empty())
    return {reinterpret_cast<float*>(tensors[result.parts[0].tensor.index()]), &shape};
  return {Scratch::floats(static_cast<std::size_t>(elements(shape))), &shape};
}

void Program::scatter(const OpRecipe::Result& result, const Array& array, std::byte* const* tensors) {
  if (result.parts.size() == 1 && result.parts[0].views.empty()) return;
  for (const Operand& part : result.parts) {
    const Array slice = seen(model_, part.views, array);
    std::copy_n(slice.data, slice.size(), reinterpret_cast<float*>(tensors[part.tensor.index()]));
  }
}

void Program::run(OpId id, std::byte* const* tensors) {
  Scratch::reset();
  const OpRecipe& how = recipe_.ops[id];
  Compiled& op = ops_[id];
  switch (how.kind) {
    case OpRecipe::Kind::forward:
      return run_forward(op, how, tensors);
    case OpRecipe::Kind::backward:
      return run_backward(op, how, tensors);
    case OpRecipe::Kind::update:
      return run_update(how, tensors);
    default:
      break;
  }
  const OpRecipe::Result& result = how.results[0];
  const Array to = target(how, result, tensors);
  if (how.kind == OpRecipe::Kind::input) {
    std::copy_n(inputs_[how.value].data(), to.size(), to.data);
  } else if (how.kind == OpRecipe::Kind::add_gradients) {
    const Array a = resolve(how.reads[0], tensors), b = resolve(how.reads[1], tensors);
    for (std::size_t i = 0, n = to.size(); i < n; ++i) to.data[i] = a.data[i] + b.data[i];
  } else if (how.kind == OpRecipe::Kind::slice_gradient) {
    std::fill_n(to.data, to.size(), 0.0F);
    for (std::size_t i = 0; i < how.reads.size(); ++i)
      add_to_whole(model_, model_.nodes[how.slices[i]], resolve(how.reads[i], tensors), to);
  } else {
    run_view_gradient(how, to, tensors);
  }
  scatter(result, to, tensors);
}

void Program::run_forward(Compiled& op, const OpRecipe& how, std::byte* const* tensors) {
  OpArrays& arrays = op.arrays;
  for (std::size_t i = 0; i < how.reads.size(); ++i) arrays.in[i] = resolve(how.reads[i], tensors);
  for (const OpRecipe::Result& result : how.results) arrays.out[result.position] = target(how, result, tensors);
  arrays.extra.clear();
  for (const TensorId extra : how.extras) arrays.extra.push_back(tensors[extra.index()]);
  op.kernel(arrays);
  for (const OpRecipe::Result& result : how.results) scatter(result, arrays.out[result.position], tensors);
  if (!recipe_.loss.is_none() && !arrays.node.outputs.empty() && arrays.node.outputs[0] == recipe_.loss)
    loss_ = static_cast<double>(arrays.out[0].data[0]);
}

void Program::run_backward(Compiled& op, const OpRecipe& how, std::byte* const* tensors) {
  OpArrays& arrays = op.arrays;
  bool any = false;
  for (std::size_t i = 0; i < how.reads.size(); ++i) arrays.in[i] = resolve(how.reads[i], tensors);
  for (std::size_t i = 0; i < how.outputs.size(); ++i) arrays.out[i] = resolve(how.outputs[i], tensors);
  for (std::size_t i = 0; i < how.gradients.size(); ++i) {
    arrays.dy[i] = resolve(how.gradients[i], tensors);
    any = any || arrays.dy[i];
  }
  if (!any) {  // where gradients start
    const Shape& shape = model_.values[arrays.node.outputs[0]].shape;
    const auto count = static_cast<std::size_t>(elements(shape));
    arrays.dy[0] = {Scratch::floats(count), &shape};
    std::fill_n(arrays.dy[0].data, count, 1.0F);
  }
  for (Array& dx : arrays.dx) dx = {};
  for (const OpRecipe::Result& result : how.results) arrays.dx[result.position] = target(how, result, tensors);
  arrays.extra.clear();
  for (const TensorId extra : how.extras) arrays.extra.push_back(tensors[extra.index()]);
  op.kernel(arrays);
  for (const OpRecipe::Result& result : how.results) scatter(result, arrays.dx[result.position], tensors);
}

void Program::run_view_gradient(const OpRecipe& how, const Array& to, std::byte* const* tensors) {
  const Node& node = model_.nodes[how.node];
  if (node.type == "Expand") {
    const Array from = resolve(how.reads[0], tensors);
    return sum_to_shape(from.data, *from.shape, to);
  }
  std::fill_n(to.data, to.size(), 0.0F);  // a Split: each part at its place
  for (std::size_t i = 0; i < how.reads.size(); ++i) {
    const Array from = resolve(how.reads[i], tensors);
    if (!from) continue;
    const Strided view = strided_view(model_, node, i);
    std::size_t k = 0;
    walk<1>(*from.shape, {view.strides},
            [&](const std::array<std::int64_t, 1>& at) { to.data[view.offset + at[0]] = from.data[k++]; });
  }
}

void Program::run_update(const OpRecipe& how, std::byte* const* tensors) {
  const Array gradient = resolve(how.reads[0], tensors);
  // Ops of this step may still read the weights, whatever the order: the new ones come into force at its end.
  std::vector<float>& weights = held_[how.value];
  std::vector<float>& next = updated_[how.value];
  next.resize(weights.size());
  const auto n = static_cast<std::int64_t>(weights.size());
  const auto w = column(weights.data(), n).array();
  const auto g = column(gradient.data, n).array();
  auto weight = column(next.data(), n);
  if (recipe_.optimizer == Optimizer::sgd) {
    weight.array() = w - kLearningRate * g;
    return;
  }
  auto first = column(momentum_[how.value].data(), n);
  if (recipe_.optimizer == Optimizer::momentum) {
    first.array() = kMomentum * first.array() + g;
    weight.array() = w - kLearningRate * first.array();
    return;
  }
  auto second = column(variance_[how.value].data(), n);
  const auto step = static_cast<float>(++steps_[how.value]);
  const float correct_first = 1 - std::pow(kFirstDecay, step), correct_second = 1 - std::pow(kSecondDecay, step);
  first.array() = kFirstDecay * first.array() + (1 - kFirstDecay) * g;
  second.array() = kSecondDecay * second.array() + (1 - kSecondDecay) * g * g;
  weight.array() =
      w - kLearningRate / correct_first * first.array() / ((second.array() / correct_second).sqrt() + kEpsilon);
}

void Program::end_step() {
  for (const ValueId id : updated_.ids()) {
    if (updated_[id].empty()) continue;
    std::ranges::copy(updated_[id], held_[id].begin());
    updated_[id].clear();
  }
}

std::uint64_t Program::parameter_checksum() const {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (const ValueId id : model_.values.ids()) {
    if (model_.values[id].role != Value::Role::parameter) continue;
    for (const float x : held_[id]) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof bits);
      sum = (sum ^ bits) * 0x100000001b3ULL;
    }
  }
  return sum;
}

}  // namespace trainyard::cpu
