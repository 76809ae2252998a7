#include "profiler/kernels/cuda/gpu_program.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "profiler/kernels/strides.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cuda {
namespace {

bool is_short(const Value& value) { return value.type == DataType::bfloat16; }

std::uint16_t shortened(float x) {  // to nearest, as the kernels do
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

GpuKernel find_kernel(const std::string& type, bool backward) {
  const GpuOp* kernels = find_gpu_op(type);
  return !kernels ? nullptr : backward ? kernels->backward : kernels->forward;
}

/// As kernels::why_not(), and features that only CPU kernels have.
std::string why_not_here(const Model& model, const Node& node) {
  if ((node.type == "Max" || node.type == "Min") && node.inputs.size() != 2)
    return "with " + std::to_string(node.inputs.size()) + " operands";
  return kernels::why_not(model, node);
}

}  // namespace

/// Device of a StepProgram on a GPU: arrays are addresses there, and work goes to the op's stream.
class GpuProgram::Device {
 public:
  Device(GpuProgram& program, OpId op, std::span<void* const> reads, std::span<void* const> writes)
      : program_(program),
        op_(op),
        at_(program.schedule_.placement[op]),
        gpu_(*program.gpus_[at_.index()]),
        reads_(reads),
        writes_(writes) {}

  Reals tensor(TensorId id) const {
    const Value* value = program_.ops_.value(id);
    return {extra(id), value && is_short(*value)};
  }
  std::byte* extra(TensorId id) const {
    const auto find = [&](const auto& tensors, std::span<void* const> memory) -> std::byte* {
      std::size_t i = 0;
      for (const TensorId each : tensors) {
        if (each == id) return static_cast<std::byte*>(memory[i]);
        ++i;
      }
      return nullptr;
    };
    std::byte* const at = find(program_.graph_.inputs(op_), reads_);
    return at ? at : find(program_.graph_.outputs(op_), writes_);
  }
  Reals held(ValueId id) const { return program_.held(id, at_).data; }
  Array scratch(const Shape& shape, const Array& like) const { return scratch(shape, like.data); }
  Array scratch(const Shape& shape, const Value& like) const { return scratch(shape, Reals{nullptr, is_short(like)}); }
  void fill(const Array& to, float x) const { gpu_.fill(to.data, x, to.size()); }
  void copy(const Array& to, const Array& from) const { gpu_.scale_add(to.data, from.data, 1, 0, from.size()); }
  void add(const Array& to, const Array& a, const Array& b) const {
    const auto dense = dense_strides(*to.shape);
    gpu_.each("Add_f", to.size(), to.data, a.data, b.data, strides_over(*to.shape, dense, dense));
  }
  void sum_to_shape(const Array& to, const Array& from) const { gpu_.sum_to_shape(from.data, *from.shape, to); }
  void gather(const Array& to, const Array& from, const Shape& shape, const Strided& view) const {
    gpu_.gather(to.data, from.data, shape, view.strides, view.offset);
  }
  void scatter(const Array& to, const Array& from, const Shape& shape, const Strided& view, bool add) const {
    gpu_.scatter(to.data, from.data, shape, view.strides, view.offset, add ? 1 : 0);
  }
  void input(ValueId id, const Array& to) const {
    gpu_.scale_add(to.data, program_.inputs_.at({id, at_}), 1, 0, to.size());
  }
  void relay(TensorId, TensorId) const { assert(false && "relays are for devices of class cpu"); }
  void update(ValueId id, const Array& gradient, const std::optional<Range>&) const {
    program_.update(id, at_, gradient.data);
  }
  // check() refuses ops of replicas, ranks and microbatches.
  Reals updated(ValueId id) const { return held(id); }
  Reals from(const Reals& data, std::size_t) const { return data; }
  void copy_slab(const Reals&, const Reals&, const Slab&) const { assert(false && "parts are for CPUs"); }
  void store(ValueId, const Reals&, const Range&) const { assert(false && "parts are for CPUs"); }
  // check() refuses clipping.
  void squares(const Array&, const Reals&, std::size_t) const { assert(false && "clipping is for CPUs"); }
  void clip(const Array&, const Array&, double) const { assert(false && "clipping is for CPUs"); }
  void scale(const Array&, const Array&, const Array&) const { assert(false && "clipping is for CPUs"); }
  void run(GpuKernel kernel, OpArrays& arrays) const { kernel(arrays, gpu_); }
  void loss(const Array& loss, double) const { gpu_.scale_add(program_.loss_, loss.data, 1, 0, 1); }

 private:
  Array scratch(const Shape& shape, const Reals& like) const {
    return {gpu_.scratch(static_cast<std::size_t>(elements(shape)), like), &shape};
  }

  GpuProgram& program_;
  const OpId op_;
  const DeviceId at_;
  Gpu& gpu_;
  const std::span<void*const> reads_, writes_;
};

GpuProgram::GpuProgram(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed,
                       const Schedule& schedule, std::vector<Gpu*> gpus)
    : graph_(problem.graph()),
      recipe_(recipe),
      model_(recipe.model),
      schedule_(schedule),
      gpus_(std::move(gpus)),
      ops_(graph_, recipe, seed, find_kernel),
      numbers_(graph_, recipe, seed) {
  check(problem);
  host_tables_.assign(gpus_.size(), {});
  for (std::size_t d = 0; d < gpus_.size(); ++d)
    if (!gpus_[d]) host_tables_[DeviceId{d}].assign(graph_.tensor_count(), nullptr);
  reset();
}

void GpuProgram::check(const Problem& problem) const {
  std::vector<Finding> findings;
  std::map<ValueId, DeviceId> home;
  using Kind = OpRecipe::Kind;
  for (const OpId op : graph_.ops())
    if (const Kind kind = recipe_.ops[op].kind; kind == Kind::sum || kind == Kind::join || kind == Kind::rest)
      refuse("splits",
             "the cuda backend does not run '" + std::string{graph_.name(op)} +
                 "', which divides a step among replicas, ranks or microbatches",
             "use the cpu backend with a cluster of cpus, for example --cluster 2xcpu-core");
  for (const OpId op : graph_.ops()) {
    const OpRecipe& how = recipe_.ops[op];
    const auto uses = [&](ValueId id) {
      if (id.is_none() || model_.values[id].role != Value::Role::parameter) return;
      const auto [known, added] = home.emplace(id, schedule_.placement[op]);
      if (!added && known->second != schedule_.placement[op] && findings.size() < 20)
        findings.push_back(
            {.code = "shared-parameter",
             .message = "ops on " + problem.cluster().device(known->second).name + " and " +
                        problem.cluster().device(schedule_.placement[op]).name + " use the same parameter '" +
                        model_.values[id].name + "'",
             .help = "place these ops on one device: the cuda backend holds each parameter on one device only"});
    };
    for (const auto* list : {&how.reads, &how.outputs, &how.gradients})
      for (const Operand& operand : *list) uses(operand.held);
    if (how.kind == OpRecipe::Kind::update) uses(how.value);
  }
  if (std::ranges::any_of(graph_.ops(), [&](OpId op) { return !gpus_[schedule_.placement[op].index()]; }))
    for (const Value& value : model_.values)
      if (is_short(value)) {
        findings.push_back({.code = "unsupported-device",
                            .message = "CPUs compute in 32-bit floats only, but '" + value.name + "' is bfloat16",
                            .help = "give a cluster of GPUs, or --precision float32"});
        break;
      }
  if (recipe_.clip_norm > 0)
    findings.push_back({.code = "unsupported-op",
                        .message = "the cuda backend does not clip gradients",
                        .help = "try --backend cpu, or do not clip"});
  // cpu::Program has already refused operators that CPUs lack.
  for (Finding& missing : ops_.missing_kernels("cuda", "try --backend cpu, which supports more operators", why_not_here,
                                               [&](OpId op) { return gpus_[schedule_.placement[op].index()]; }))
    if (findings.size() < 20) findings.push_back(std::move(missing));
  if (!findings.empty()) throw InputError{std::move(findings)};
}

IdMap<TensorId, Bytes> GpuProgram::tensor_bytes() const {
  IdMap<TensorId, Bytes> bytes(graph_.tensor_count());
  for (const TensorId tensor : graph_.tensors()) {
    const Value* value = ops_.value(tensor);
    bytes[tensor] = !value || is_short(*value) ? graph_.bytes(tensor)
                                               : Bytes{static_cast<std::int64_t>(numbers_.tensor_bytes(tensor))};
  }
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
  for (const OpId op : graph_.ops()) {  // before a step's gate closes, since copies wait
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
      if (recipe_.optimizer == Optimizer::adam && !correction_.contains(device)) correction_[device] = gpu.keep(2);
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
    if (step_ % 2 != 0 && here.next) std::swap(here.data, here.next);
    const std::vector<float>& numbers = numbers_.held(key.first);
    copy_in(*gpus_[key.second.index()], here.data, numbers);
    if (here.master) copy_in(*gpus_[key.second.index()], here.master, numbers);
  }
  step_ = 0;
  set_corrections();
}

void GpuProgram::set_corrections() {
  const AdamCorrection correction{step_ + 1};
  const float numbers[]{correction.first, correction.second};
  for (const auto& [device, place] : correction_) gpus_[device.index()]->copy_in(place, numbers, sizeof numbers);
}

std::size_t GpuProgram::run(OpId op, std::span<void* const> reads, std::span<void* const> writes, Stream stream) {
  Gpu& gpu = *gpus_[schedule_.placement[op].index()];
  gpu.begin(stream);
  Device device{*this, op, reads, writes};
  ops_.run(op, device);
  return gpu.launches();
}

void GpuProgram::run_on_host(OpId op, std::span<void* const> reads, std::span<void* const> writes) {
  std::vector<std::byte*>& table = host_tables_[schedule_.placement[op]];
  std::size_t i = 0;
  for (const TensorId tensor : graph_.inputs(op)) table[tensor.index()] = static_cast<std::byte*>(reads[i++]);
  i = 0;
  for (const TensorId tensor : graph_.outputs(op)) table[tensor.index()] = static_cast<std::byte*>(writes[i++]);
  numbers_.run(op, table.data());
}

void GpuProgram::update(ValueId id, DeviceId device, const Reals& gradient) {
  Gpu& gpu = *gpus_[device.index()];
  Held& here = held(id, device);
  const std::size_t count = numbers_.held(id).size();
  // The 32-bit master of a bfloat16 parameter is updated in place, since only updates read it.
  const Reals now = here.master ? Reals{here.master} : here.data, next = here.master ? now : here.next;
  if (recipe_.optimizer == Optimizer::sgd) {
    gpu.each("sgd_update", count, next, now, gradient, kLearningRate);
  } else if (recipe_.optimizer == Optimizer::momentum) {
    gpu.each("momentum_update", count, next, here.momentum, now, gradient, kLearningRate, kMomentum);
  } else {
    gpu.each("adam_update", count, next, here.momentum, here.variance, now, gradient, kLearningRate, kFirstDecay,
             kSecondDecay, correction_.at(device));
  }
  if (here.master) gpu.scale_add(here.next, now, 1, 0, count);
}

void GpuProgram::end_step() {
  for (auto& [key, here] : held_)
    if (here.next) std::swap(here.data, here.next);
  ++step_;
  set_corrections();
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
  return kernels::parameter_checksum(model_, [&](ValueId id) { return parameter(id); });
}

}  // namespace trainyard::cuda
