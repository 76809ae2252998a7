#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "profiler/cpu/program.hpp"
#include "profiler/cuda/ops/gpu_kernels.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::cuda {

/// A training graph compiled for GPUs: parameters, inputs, and what each op launches. It begins with the numbers of
/// cpu::Program for the same seed. A parameter lives on the one device whose ops use it; what is not updated is copied
/// to each device that reads it. Devices may be CPUs too: their ops are those of cpu::Program. Values of bfloat16 are
/// that in the GPU's memory, and their arithmetic is that of 32-bit floats.
class GpuProgram {
 public:
  /// `gpus` by device, null where it is a CPU. Throws InputError: "unsupported-op" naming the operators that have no
  /// kernel, "shared-parameter" where ops on two devices use a parameter, "unsupported-device" where a CPU is to
  /// compute on bfloat16.
  GpuProgram(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed, const Schedule& schedule,
             std::vector<Gpu*> gpus);

  /// Bytes that each tensor takes here.
  IdMap<TensorId, Bytes> tensor_bytes() const;
  /// Launches an op; memory in the order of the graph's inputs and outputs.
  void run(OpId op, std::span<void* const> reads, std::span<void* const> writes, Stream stream);
  /// Runs an op of a CPU, in memory of the host. Each CPU's ops by one thread at a time.
  void run_on_host(OpId op, std::span<void* const> reads, std::span<void* const> writes);
  /// Once all work of a step has ended: updated parameters come into force.
  void end_step();
  void reset();
  double loss();
  std::uint64_t parameter_checksum();
  /// What a parameter is now.
  std::vector<float> parameter(ValueId id);

 private:
  struct Held {
    Reals data, next;
    float *master = nullptr, *momentum = nullptr, *variance = nullptr;  // master: of a bfloat16 parameter, 32 bits
    bool updated = false;
  };
  struct Places {  // of the op that runs
    std::span<void*const> reads, writes;
  };

  void check(const Problem& problem) const;
  Held& held(ValueId id, DeviceId device);
  std::byte* address(TensorId tensor, OpId op, const Places& places) const;
  const Value& result_value(const OpRecipe& how, const OpRecipe::Result& result) const;
  Array array_of(TensorId tensor, OpId op, const Places& places) const;
  void copy_in(Gpu& gpu, const Reals& to, const std::vector<float>& numbers) const;
  Array resolve(const Operand& operand, OpId op, const Places& places, Gpu& gpu);
  Array seen(std::span<const ViewStep> views, Array array, Gpu& gpu) const;
  Array target(const OpRecipe& how, const OpRecipe::Result& result, OpId op, const Places& places, Gpu& gpu) const;
  void scatter(const OpRecipe::Result& result, const Array& array, OpId op, const Places& places, Gpu& gpu) const;
  void run_node(const OpRecipe& how, OpId op, const Places& places, Gpu& gpu);
  void run_view_gradient(const OpRecipe& how, const Array& to, OpId op, const Places& places, Gpu& gpu);
  void run_update(const OpRecipe& how, OpId op, const Places& places, Gpu& gpu);

  const Graph& graph_;
  const TrainingRecipe& recipe_;
  const Model& model_;
  const Schedule& schedule_;
  const std::uint64_t seed_;
  std::vector<Gpu*> gpus_;
  cpu::Program numbers_;
  IdMap<DeviceId, std::vector<std::byte*>> host_tables_;  // of CPUs, by tensor: where it is
  IdMap<TensorId, const Shape*> shapes_;
  std::map<std::pair<ValueId, DeviceId>, Held> held_;
  std::map<std::pair<ValueId, DeviceId>, Reals> inputs_;
  IdMap<TensorId, bool> short_;  // tensors of bfloat16; other numbers, whole ones too, are 32-bit floats
  IdMap<ValueId, std::int64_t> steps_;
  float* loss_ = nullptr;
  Gpu* loss_gpu_ = nullptr;
};

}  // namespace trainyard::cuda
