#include "profiler/cuda/ops/gpu_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "profiler/cpu/broadcast.hpp"
#include "profiler/cpu/views.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cuda {
namespace {

constexpr float kLearningRate = 1e-3F, kMomentum = 0.9F, kFirstDecay = 0.9F, kSecondDecay = 0.999F;

std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

bool is_short(const Value& value) { return value.type == DataType::bfloat16; }

std::uint16_t shortened(float x) {  // to the nearest, as the kernels do
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace

GpuProgram::GpuProgram(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed,
                       const Schedule& schedule, std::vector<Gpu*> gpus)
    : graph_(problem.graph()),
      recipe_(recipe),
      model_(recipe.model),
      schedule_(schedule),
      seed_(seed),
      gpus_(std::move(gpus)),
      numbers_(graph_, recipe, seed) {
  check(problem);
  host_tables_.assign(gpus_.size(), {});
  for (std::size_t d = 0; d < gpus_.size(); ++d)
    if (!gpus_[d]) host_tables_[DeviceId{d}].assign(graph_.tensor_count(), nullptr);
  shapes_.assign(graph_.tensor_count(), nullptr);
  short_.assign(graph_.tensor_count(), false);
  for (const OpId op : graph_.ops())
    for (const OpRecipe::Result& result : recipe.ops[op].results)
      for (const Operand& part : result.parts) {
        const Value& value = result_value(recipe.ops[op], result);
        shapes_[part.tensor] = &cpu::shape_after(model_, part.views, value.shape);
        short_[part.tensor] = is_short(value);
      }
  reset();
}

void GpuProgram::check(const Problem& problem) const {
  std::vector<Finding> findings;
  std::map<std::string, std::string> missing;
  std::map<ValueId, DeviceId> home;
  for (const OpId op : graph_.ops()) {
    const OpRecipe& how = recipe_.ops[op];
    const bool backward = how.kind == OpRecipe::Kind::backward;
    const bool on_gpu = gpus_[schedule_.placement[op].index()];  // of CPUs, cpu::Program has refused what it lacks
    if (on_gpu && (backward || how.kind == OpRecipe::Kind::forward)) {
      const Node& node = model_.nodes[how.node];
      const GpuOp* kernels = find_gpu_op(node.type);
      const std::string why = cpu::why_not(node);
      if (!kernels || !(backward ? kernels->backward : kernels->forward))
        missing.emplace(node.type + (backward ? " (its gradient)" : ""), std::string{graph_.name(op)});
      else if (!why.empty())
        missing.emplace(node.type + " " + why, std::string{graph_.name(op)});
    }
    const auto uses = [&](ValueId id) {
      if (id.is_none() || model_.values[id].role != Value::Role::parameter) return;
      const auto [known, added] = home.emplace(id, schedule_.placement[op]);
      if (!added && known->second != schedule_.placement[op] && findings.size() < 20)
        findings.push_back({.code = "shared-parameter",
                            .message = "ops on " + problem.cluster().device(known->second).name + " and " +
                                       problem.cluster().device(schedule_.placement[op]).name + " use the parameter '" +
                                       model_.values[id].name + "'",
                            .help = "the cuda backend holds a parameter on one device"});
    };
    for (const auto* list : {&how.reads, &how.outputs, &how.gradients})
      for (const Operand& operand : *list) uses(operand.held);
    if (how.kind == OpRecipe::Kind::update) uses(how.value);
  }
  if (std::ranges::any_of(graph_.ops(), [&](OpId op) { return !gpus_[schedule_.placement[op].index()]; }))
    for (const Value& value : model_.values)
      if (is_short(value)) {
        findings.push_back({.code = "unsupported-device",
                            .message = "a CPU computes in 32-bit floats, and '" + value.name + "' is bfloat16",
                            .help = "give a cluster of GPUs, or --precision float32"});
        break;
      }
  for (const auto& [type, op] : missing)
    if (findings.size() < 20)
      findings.push_back({.code = "unsupported-op",
                          .message = "the cuda backend cannot run the operator " + type + ", as in '" + op + "'",
                          .help = "--backend cpu runs more operators"});
  if (!findings.empty()) throw InputError{std::move(findings)};
}

IdMap<TensorId, Bytes> GpuProgram::tensor_bytes() const {
  IdMap<TensorId, Bytes> bytes(graph_.tensor_count());
  for (const TensorId tensor : graph_.tensors())
    bytes[tensor] = short_[tensor] || !shapes_[tensor]
                        ? graph_.bytes(tensor)
                        : Bytes{static_cast<std::int64_t>(numbers_.tensor_bytes(tensor))};
  return bytes;
}

GpuProgram::Held& GpuProgram::held(ValueId id, DeviceId device) {
  const auto [entry, added] = held_.try_emplace({id, device});
  Held& here = entry->second;
  if (!added) return here;
  const std::vector<float>& numbers = numbers_.held(id);
  here.data = gpus_[device.index()]->keep(numbers.size(), is_short(model_.values[id]));
  copy_in(*gpus_[device.index()], here.data, numbers);
  return here;
}

void GpuProgram::copy_in(Gpu& gpu, const Reals& to, const std::vector<float>& numbers) const {
  if (!to.is_short) return gpu.copy_in(to.at, numbers.data(), numbers.size() * sizeof(float));
  std::vector<std::uint16_t> halves(numbers.size());
  std::ranges::transform(numbers, halves.begin(), shortened);
  gpu.copy_in(to.at, halves.data(), halves.size() * sizeof(std::uint16_t));
}

void GpuProgram::reset() {
  numbers_.reset();
  steps_.assign(model_.values.size(), 0);
  for (const OpId op : graph_.ops()) {  // before the gate of a step closes: copies wait
    const OpRecipe& how = recipe_.ops[op];
    const DeviceId device = schedule_.placement[op];
    if (!gpus_[device.index()]) continue;
    Gpu& gpu = *gpus_[device.index()];
    for (const auto* list : {&how.reads, &how.outputs, &how.gradients})
      for (const Operand& operand : *list)
        if (!operand.held.is_none()) held(operand.held, device);
    if (how.kind == OpRecipe::Kind::input) {
      const std::vector<float>& numbers = numbers_.input(how.value);
      Reals& memory = inputs_[{how.value, device}];
      if (!memory) memory = gpu.keep(numbers.size(), is_short(model_.values[how.value]));
      copy_in(gpu, memory, numbers);
    }
    if (how.kind == OpRecipe::Kind::update) {
      Held& here = held(how.value, device);
      const std::size_t count = numbers_.held(how.value).size();
      if (!here.next) here.next = gpu.keep(count, here.data.is_short != 0);
      if (here.data.is_short && !here.master) here.master = gpu.keep(count);
      const std::vector<float> zeros(count, 0.0F);
      for (auto [memory, wanted] : {std::pair{&here.momentum, recipe_.optimizer != Optimizer::sgd},
                                    std::pair{&here.variance, recipe_.optimizer == Optimizer::adam}}) {
        if (!wanted) continue;
        if (!*memory) *memory = gpu.keep(count);
        gpu.copy_in(*memory, zeros.data(), count * sizeof(float));
      }
    }
    if (how.kind == OpRecipe::Kind::forward && !recipe_.loss.is_none() &&
        model_.nodes[how.node].outputs[0] == recipe_.loss && !loss_) {
      loss_gpu_ = &gpu;
      loss_ = gpu.keep(1);
    }
  }
  for (auto& [key, here] : held_) {
    const std::vector<float>& numbers = numbers_.held(key.first);
    copy_in(*gpus_[key.second.index()], here.data, numbers);
    if (here.master) copy_in(*gpus_[key.second.index()], here.master, numbers);
    here.updated = false;
  }
}

const Value& GpuProgram::result_value(const OpRecipe& how, const OpRecipe::Result& result) const {
  switch (how.kind) {
    case OpRecipe::Kind::forward:
      return model_.values[model_.nodes[how.node].outputs[result.position]];
    case OpRecipe::Kind::backward:
      return model_.values[model_.nodes[how.node].inputs[result.position]];
    case OpRecipe::Kind::view_gradient:
      return model_.values[model_.nodes[how.node].inputs[0]];
    default:
      return model_.values[how.value];
  }
}

std::byte* GpuProgram::address(TensorId tensor, OpId op, const Places& places) const {
  const auto find = [&](const auto& tensors, std::span<void* const> memory) -> std::byte* {
    std::size_t i = 0;
    for (const TensorId each : tensors) {
      if (each == tensor) return static_cast<std::byte*>(memory[i]);
      ++i;
    }
    return nullptr;
  };
  std::byte* at = find(graph_.inputs(op), places.reads);
  return at ? at : find(graph_.outputs(op), places.writes);
}

Array GpuProgram::array_of(TensorId tensor, OpId op, const Places& places) const {
  return {Reals{address(tensor, op, places), short_[tensor]}, shapes_[tensor]};
}

Array GpuProgram::resolve(const Operand& operand, OpId op, const Places& places, Gpu& gpu) {
  if (operand.is_none()) return {};
  Array array;
  if (!operand.held.is_none())
    array = {held(operand.held, schedule_.placement[op]).data, &model_.values[operand.held].shape};
  else
    array = array_of(operand.tensor, op, places);
  return operand.views.empty() ? array : seen(operand.views, array, gpu);
}

Array GpuProgram::seen(std::span<const ViewStep> views, Array array, Gpu& gpu) const {
  for (std::size_t i = 0; i < views.size(); ++i) {
    const ViewStep& step = views[i];
    const Node& node = model_.nodes[step.node];
    const Shape& shape = cpu::shape_after(model_, views.subspan(0, i + 1), *array.shape);
    if (step.kind == ViewStep::Kind::part) {
      const Shape& whole = model_.values[node.outputs[0]].shape;
      const std::size_t axis = OpArrays::axis(node.integer("axis", 0), whole.size());
      const auto strides = dense_strides(whole);
      std::int64_t offset = 0;
      for (std::size_t k = 0; k < step.index; ++k) offset += model_.values[node.inputs[k]].shape[axis] * strides[axis];
      Array to{gpu.scratch(static_cast<std::size_t>(elements(shape)), array.data), &shape};
      gpu.gather(to.data, array.data, shape, strides, offset);
      array = to;
      continue;
    }
    const cpu::Strided view = cpu::strided_view(model_, node, step.index);
    if (view.dense) {
      array.shape = &shape;
    } else if (step.kind == ViewStep::Kind::output) {
      Array to{gpu.scratch(static_cast<std::size_t>(elements(shape)), array.data), &shape};
      gpu.gather(to.data, array.data, shape, view.strides, view.offset);
      array = to;
    } else {
      Array to{gpu.scratch(array.size(), array.data), &shape};
      gpu.scatter(to.data, array.data, model_.values[node.outputs[0]].shape, view.strides, view.offset, 0);
      array = to;
    }
  }
  return array;
}

Array GpuProgram::target(const OpRecipe& how, const OpRecipe::Result& result, OpId op, const Places& places,
                         Gpu& gpu) const {
  const Value& value = result_value(how, result);
  if (result.parts.size() == 1 && result.parts[0].views.empty())
    return {array_of(result.parts[0].tensor, op, places).data, &value.shape};
  return {gpu.scratch(static_cast<std::size_t>(elements(value.shape)), Reals{nullptr, is_short(value)}), &value.shape};
}

void GpuProgram::scatter(const OpRecipe::Result& result, const Array& array, OpId op, const Places& places,
                         Gpu& gpu) const {
  if (result.parts.size() == 1 && result.parts[0].views.empty()) return;
  for (const Operand& part : result.parts) {
    const Array slice = seen(part.views, array, gpu);
    gpu.scale_add(array_of(part.tensor, op, places).data, slice.data, 1, 0, slice.size());
  }
}

void GpuProgram::run(OpId op, std::span<void* const> reads, std::span<void* const> writes, Stream stream) {
  const OpRecipe& how = recipe_.ops[op];
  Gpu& gpu = *gpus_[schedule_.placement[op].index()];
  gpu.begin(stream);
  const Places places{reads, writes};
  if (how.kind == OpRecipe::Kind::forward || how.kind == OpRecipe::Kind::backward)
    return run_node(how, op, places, gpu);
  if (how.kind == OpRecipe::Kind::update) return run_update(how, op, places, gpu);
  const OpRecipe::Result& result = how.results[0];
  const Array to = target(how, result, op, places, gpu);
  if (how.kind == OpRecipe::Kind::input) {
    gpu.scale_add(to.data, inputs_.at({how.value, schedule_.placement[op]}), 1, 0, to.size());
  } else if (how.kind == OpRecipe::Kind::add_gradients) {
    const Array a = resolve(how.reads[0], op, places, gpu), b = resolve(how.reads[1], op, places, gpu);
    const auto dense = dense_strides(*to.shape);
    gpu.each("Add_f", to.size(), to.data, a.data, b.data, strides_over(*to.shape, dense, dense));
  } else if (how.kind == OpRecipe::Kind::slice_gradient) {
    gpu.fill(to.data, 0, to.size());
    for (std::size_t i = 0; i < how.reads.size(); ++i) {
      const Node& node = model_.nodes[how.slices[i]];
      const cpu::Strided view = cpu::strided_view(model_, node, 0);
      gpu.scatter(to.data, resolve(how.reads[i], op, places, gpu).data, model_.values[node.outputs[0]].shape,
                  view.strides, view.offset, 1);
    }
  } else {
    run_view_gradient(how, to, op, places, gpu);
  }
  scatter(result, to, op, places, gpu);
}

void GpuProgram::run_on_host(OpId op, std::span<void* const> reads, std::span<void* const> writes) {
  std::vector<std::byte*>& table = host_tables_[schedule_.placement[op]];
  std::size_t i = 0;
  for (const TensorId tensor : graph_.inputs(op)) table[tensor.index()] = static_cast<std::byte*>(reads[i++]);
  i = 0;
  for (const TensorId tensor : graph_.outputs(op)) table[tensor.index()] = static_cast<std::byte*>(writes[i++]);
  numbers_.run(op, table.data());
}

void GpuProgram::run_node(const OpRecipe& how, OpId op, const Places& places, Gpu& gpu) {
  const Node& node = model_.nodes[how.node];
  const bool backward = how.kind == OpRecipe::Kind::backward;
  OpArrays arrays{.model = model_, .node = node, .in = {}, .out = {}, .dy = {}, .dx = {}};
  arrays.seed = (seed_ << 20) + how.node.index();
  arrays.in.resize(node.inputs.size());
  arrays.out.resize(node.outputs.size());
  for (std::size_t i = 0; i < how.reads.size(); ++i) arrays.in[i] = resolve(how.reads[i], op, places, gpu);
  for (const TensorId extra : how.extras) arrays.extra.push_back(address(extra, op, places));
  std::vector<Array>* results = &arrays.out;
  if (backward) {
    arrays.dy.resize(node.outputs.size());
    arrays.dx.resize(node.inputs.size());
    results = &arrays.dx;
    bool any = false;
    for (std::size_t i = 0; i < how.outputs.size(); ++i) arrays.out[i] = resolve(how.outputs[i], op, places, gpu);
    for (std::size_t i = 0; i < how.gradients.size(); ++i) {
      arrays.dy[i] = resolve(how.gradients[i], op, places, gpu);
      any = any || arrays.dy[i];
    }
    if (!any) {  // where gradients start
      const Value& value = model_.values[node.outputs[0]];
      const auto count = static_cast<std::size_t>(elements(value.shape));
      arrays.dy[0] = {gpu.scratch(count, Reals{nullptr, is_short(value)}), &value.shape};
      gpu.fill(arrays.dy[0].data, 1, count);
    }
  }
  for (const OpRecipe::Result& result : how.results) (*results)[result.position] = target(how, result, op, places, gpu);
  const GpuOp& kernels = *find_gpu_op(node.type);
  (backward ? kernels.backward : kernels.forward)(arrays, gpu);
  for (const OpRecipe::Result& result : how.results) scatter(result, (*results)[result.position], op, places, gpu);
  if (!backward && !recipe_.loss.is_none() && node.outputs[0] == recipe_.loss)
    gpu.scale_add(loss_, arrays.out[0].data, 1, 0, 1);
}

void GpuProgram::run_view_gradient(const OpRecipe& how, const Array& to, OpId op, const Places& places, Gpu& gpu) {
  const Node& node = model_.nodes[how.node];
  if (node.type == "Expand") {
    const Array from = resolve(how.reads[0], op, places, gpu);
    return gpu.sum_to_shape(from.data, *from.shape, to);
  }
  gpu.fill(to.data, 0, to.size());
  for (std::size_t i = 0; i < how.reads.size(); ++i) {
    const Array from = resolve(how.reads[i], op, places, gpu);
    if (!from) continue;
    const cpu::Strided view = cpu::strided_view(model_, node, i);
    gpu.scatter(to.data, from.data, *from.shape, view.strides, view.offset, 0);
  }
}

void GpuProgram::run_update(const OpRecipe& how, OpId op, const Places& places, Gpu& gpu) {
  const Reals gradient = resolve(how.reads[0], op, places, gpu).data;
  Held& here = held(how.value, schedule_.placement[op]);
  const std::size_t count = numbers_.held(how.value).size();
  here.updated = true;
  // The 32 bits of a bfloat16 parameter are updated in place: only updates read them.
  const Reals now = here.master ? Reals{here.master} : here.data, next = here.master ? now : here.next;
  if (recipe_.optimizer == Optimizer::sgd) {
    gpu.each("sgd_update", count, next, now, gradient, kLearningRate);
  } else if (recipe_.optimizer == Optimizer::momentum) {
    gpu.each("momentum_update", count, next, here.momentum, now, gradient, kLearningRate, kMomentum);
  } else {
    const auto step = static_cast<float>(++steps_[how.value]);
    gpu.each("adam_update", count, next, here.momentum, here.variance, now, gradient, kLearningRate, kFirstDecay,
             kSecondDecay, 1 - std::pow(kFirstDecay, step), 1 - std::pow(kSecondDecay, step));
  }
  if (here.master) gpu.scale_add(here.next, now, 1, 0, count);
}

void GpuProgram::end_step() {
  for (auto& [key, here] : held_) {
    if (!here.updated) continue;
    std::swap(here.data, here.next);
    here.updated = false;
  }
  numbers_.end_step();
}

double GpuProgram::loss() {
  if (!loss_) return numbers_.loss();
  float value = 0;
  loss_gpu_->copy_out(&value, loss_, sizeof value);
  return static_cast<double>(value);
}

std::vector<float> GpuProgram::parameter(ValueId id) {
  for (const auto& [key, here] : held_)
    if (key.first == id) {
      Gpu& gpu = *gpus_[key.second.index()];
      std::vector<float> numbers(numbers_.held(id).size());
      if (!here.data.is_short) {
        gpu.copy_out(numbers.data(), here.data.at, numbers.size() * sizeof(float));
        return numbers;
      }
      std::vector<std::uint16_t> halves(numbers.size());
      gpu.copy_out(halves.data(), here.data.at, halves.size() * sizeof(std::uint16_t));
      for (std::size_t i = 0; i < halves.size(); ++i) {
        const std::uint32_t bits = std::uint32_t{halves[i]} << 16;
        std::memcpy(&numbers[i], &bits, sizeof bits);
      }
      return numbers;
    }
  return numbers_.held(id);
}

std::uint64_t GpuProgram::parameter_checksum() {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (const ValueId id : model_.values.ids()) {
    if (model_.values[id].role != Value::Role::parameter) continue;
    for (const float x : parameter(id)) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof bits);
      sum = (sum ^ bits) * 0x100000001b3ULL;
    }
  }
  return sum;
}

}  // namespace trainyard::cuda
