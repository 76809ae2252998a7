#include "profiler/kernels/cpu/program.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "profiler/kernels/cpu/broadcast.hpp"
#include "profiler/kernels/cpu/matrix.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cpu {
namespace {

constexpr float kEpsilon = 1e-8F;

Kernel find_kernel(const std::string& type, bool backward) {
  const OpKernels* kernels = find_kernels(type);
  return !kernels ? nullptr : backward ? kernels->backward : kernels->forward;
}

}  // namespace

/// Device of a StepProgram on a CPU: arrays lie in the memory that this run gives the tensors.
class Program::Device {
 public:
  Device(Program& program, OpId op, std::byte* const* tensors) : program_(program), op_(op), tensors_(tensors) {}

  float* tensor(TensorId id) const { return reinterpret_cast<float*>(extra(id)); }
  std::byte* extra(TensorId id) const { return tensors_[id.index()]; }
  float* held(ValueId id) const { return program_.held_[id].data(); }
  template <class Like>
  Array scratch(const Shape& shape, const Like&) const {
    return {Scratch::floats(static_cast<std::size_t>(elements(shape))), &shape};
  }
  void fill(const Array& to, float x) const { std::fill_n(to.data, to.size(), x); }
  void copy(const Array& to, const Array& from) const { std::copy_n(from.data, from.size(), to.data); }
  void add(const Array& to, const Array& a, const Array& b) const {
    for (std::size_t i = 0, n = to.size(); i < n; ++i) to.data[i] = a.data[i] + b.data[i];
  }
  void sum_to_shape(const Array& to, const Array& from) const { cpu::sum_to_shape(from.data, *from.shape, to); }
  void gather(const Array& to, const Array& from, const Shape& shape, const Strided& view) const {
    std::size_t i = 0;
    walk<1>(shape, {view.strides},
            [&](const std::array<std::int64_t, 1>& at) { to.data[i++] = from.data[view.offset + at[0]]; });
  }
  void scatter(const Array& to, const Array& from, const Shape& shape, const Strided& view, bool add) const {
    std::size_t i = 0;
    walk<1>(shape, {view.strides}, [&](const std::array<std::int64_t, 1>& at) {
      float& element = to.data[view.offset + at[0]];
      element = add ? element + from.data[i] : from.data[i];
      ++i;
    });
  }
  void input(ValueId id, const Array& to) const { std::copy_n(program_.inputs_[id].data(), to.size(), to.data); }
  void relay(TensorId to, TensorId from) const { std::memcpy(extra(to), extra(from), program_.bytes_[from]); }
  float* updated(ValueId id) const { return program_.updated_[id].data(); }
  float* from(float* data, std::size_t offset) const { return data + offset; }
  void copy_slab(float* to, const float* from, const Slab& slab) const { kernels::copy_slab(to, from, slab); }
  void store(ValueId id, const float* from, const Range& range) const {
    std::copy_n(from + range.from, range.count, program_.updated_[id].begin() + static_cast<std::ptrdiff_t>(range.to));
  }
  void update(ValueId id, const Array& gradient, const std::optional<Range>& range) const {
    program_.update(id, gradient, range);
  }
  void squares(const Array& to, const float* from, std::size_t count) const {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    to.data[0] = static_cast<float>(sum);
  }
  /// As clip_grad_norm_() of PyTorch.
  void clip(const Array& to, const Array& squares, double limit) const {
    to.data[0] = static_cast<float>(std::min(1.0, limit / (std::sqrt(static_cast<double>(squares.data[0])) + 1e-6)));
  }
  void scale(const Array& to, const Array& from, const Array& by) const {
    for (std::size_t i = 0; i < from.size(); ++i) to.data[i] = by.data[0] * from.data[i];
  }
  void run(Kernel kernel, OpArrays& arrays) const { kernel(arrays); }
  void loss(const Array& loss, double share) const {
    program_.losses_.find(op_)->second = share * static_cast<double>(loss.data[0]);
  }

 private:
  Program& program_;
  const OpId op_;
  std::byte* const* tensors_;
};

Program::Program(const Graph& graph, const TrainingRecipe& recipe, std::uint64_t seed)
    : recipe_(recipe), model_(recipe.model), seed_(seed), ops_(graph, recipe, seed, find_kernel) {
  auto missing = ops_.missing_kernels("cpu", "use `trainyard simulate`, which predicts the step without running it",
                                      why_not, [](OpId) { return true; });
  if (!missing.empty()) throw InputError{std::move(missing)};
  bytes_.assign(graph.tensor_count(), 0);
  for (const TensorId tensor : graph.tensors())
    if (const Shape* shape = ops_.shape(tensor))
      bytes_[tensor] = static_cast<std::size_t>(elements(*shape)) * sizeof(float);
  for (const TensorId tensor : graph.tensors())
    bytes_[tensor] = std::max(bytes_[tensor], static_cast<std::size_t>(graph.bytes(tensor).count));
  for (const OpId op : graph.ops()) {  // sizes of kept data may count elements of the values' type
    const OpRecipe& how = recipe.ops[op];
    if (how.kind != OpRecipe::Kind::forward) continue;
    const Node& node = model_.nodes[how.node];
    const std::int64_t element = bytes_per_element(model_.values[node.outputs[0]].type);
    if (node.type == "BatchNormalization")  // each share of a batch has statistics of all channels
      for (const TensorId extra : how.extras)
        bytes_[extra] = std::max(bytes_[extra],
                                 2 * sizeof(float) * static_cast<std::size_t>(model_.values[node.inputs[0]].shape[1]));
    for (const TensorId extra : how.extras)
      if (element < 4) bytes_[extra] *= static_cast<std::size_t>(4 / std::max<std::int64_t>(1, element));
  }
  for (const OpId op : graph.ops())
    if (recipe.ops[op].kind == OpRecipe::Kind::relay) bytes_[*graph.outputs(op).begin()] = bytes_[graph.inputs(op)[0]];
  for (const OpId op : graph.ops()) {
    const OpRecipe& how = recipe.ops[op];
    if (ops_.gives_loss(op)) losses_.emplace(op, 0);
    if (how.range) in_pieces_.insert(how.value);
    for (const OpRecipe::Store& store : how.stores) in_pieces_.insert(store.parameter);
  }
  const std::size_t values = model_.values.size();
  held_.assign(values, {});
  inputs_.assign(values, {});
  momentum_.assign(values, {});
  find_used(graph);
  updated_.assign(values, {});
  variance_.assign(values, {});
  steps_.assign(values, 0);
  reset();
}

/// Marks the values in use. Values that are replaced by their parts are not.
void Program::find_used(const Graph& graph) {
  is_used_.assign(model_.values.size(), recipe_.copies.empty());
  for (const HeldCopy& copy : recipe_.copies) copies_.emplace(copy.copy, &copy);
  if (recipe_.copies.empty()) return;
  for (const OpId op : graph.ops()) {
    const OpRecipe& how = recipe_.ops[op];
    for (const auto* list : {&how.reads, &how.outputs, &how.gradients})
      for (const Operand& operand : *list)
        if (!operand.held.is_none()) is_used_[operand.held] = true;
    if (how.kind == OpRecipe::Kind::input || how.kind == OpRecipe::Kind::update) is_used_[how.value] = true;
    for (const OpRecipe::Store& store : how.stores) is_used_[store.parameter] = true;
  }
}

void Program::run(OpId op, std::byte* const* tensors) {
  Scratch::reset();
  Device device{*this, op, tensors};
  ops_.run(op, device);
}

void Program::update(ValueId id, const Array& gradient, const std::optional<Range>& range) {
  // Ops of this step may still read the weights, in any order: new weights become current at the end of the step.
  std::vector<float>& weights = held_[id];
  std::vector<float>& next = updated_[id];
  next.resize(weights.size());
  const Range of = range.value_or(Range{.count = weights.size()});
  const auto n = static_cast<std::int64_t>(of.count);
  const auto w = column(weights.data() + of.to, n).array();
  const auto g = column(gradient.data + of.from, n).array();
  auto weight = column(next.data() + of.to, n);
  if (recipe_.optimizer == Optimizer::sgd) {
    weight.array() = w - kLearningRate * g;
    return;
  }
  auto first = column(momentum_[id].data() + of.to, n);
  if (recipe_.optimizer == Optimizer::momentum) {
    first.array() = kMomentum * first.array() + g;
    weight.array() = w - kLearningRate * first.array();
    return;
  }
  auto second = column(variance_[id].data() + of.to, n);
  const AdamCorrection correction{++steps_[id]};
  first.array() = kFirstDecay * first.array() + (1 - kFirstDecay) * g;
  second.array() = kSecondDecay * second.array() + (1 - kSecondDecay) * g * g;
  weight.array() =
      w - kLearningRate / correction.first * first.array() / ((second.array() / correction.second).sqrt() + kEpsilon);
}

void Program::end_step() {
  for (const ValueId id : updated_.ids()) {
    if (updated_[id].empty()) continue;
    std::ranges::copy(updated_[id], held_[id].begin());
    if (!in_pieces_.contains(id)) updated_[id].clear();
  }
}

double Program::loss() const {
  double sum = 0;
  for (const auto& [op, share] : losses_) sum += share;
  return sum;
}

std::uint64_t Program::parameter_checksum() const {
  return kernels::parameter_checksum(model_, [&](ValueId id) -> const std::vector<float>& { return held_[id]; });
}

}  // namespace trainyard::cpu
