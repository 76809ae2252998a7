#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "profiler/kernels/cpu/program.hpp"
#include "profiler/kernels/cuda/gpu_kernels.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::cuda {

/// A training graph on GPUs: parameters, optimizer state and inputs, and what each op launches. It begins with the
/// numbers of cpu::Program for the same seed. A parameter lives on the one device whose ops use it; what is not updated
/// is copied to each device that reads it. Devices may be CPUs too: their ops are those of cpu::Program. Values of
/// bfloat16 are that in the GPU's memory, and their arithmetic is that of 32-bit floats.
class GpuProgram {
 public:
  /// `gpus` by device, null where it is a CPU. Throws InputError: "unsupported-op" naming the operators that have no
  /// kernel, "shared-parameter" where ops on two devices use a parameter, "unsupported-device" where a CPU is to
  /// compute on bfloat16.
  GpuProgram(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed, const Schedule& schedule,
             std::vector<Gpu*> gpus);

  /// Bytes that each tensor takes here.
  IdMap<TensorId, Bytes> tensor_bytes() const;
  /// Launches an op; memory in the order of the graph's inputs and outputs. Returns how many pieces of work it is.
  std::size_t run(OpId op, std::span<void* const> reads, std::span<void* const> writes, Stream stream);
  /// Runs an op of a CPU, in memory of the host. Each CPU's ops by one thread at a time.
  void run_on_host(OpId op, std::span<void* const> reads, std::span<void* const> writes);
  /// Once all work of a step has ended: updated parameters come into force.
  void end_step();
  /// Steps of one variant launch the same kernels with the same arguments: updated weights take turns in two places.
  int variant() const { return static_cast<int>(step_ % 2); }
  void reset();
  double loss();
  std::uint64_t parameter_checksum();
  /// Current values of a parameter.
  std::vector<float> parameter(ValueId id);

 private:
  struct Held {
    Reals data, next;
    float *master = nullptr, *momentum = nullptr, *variance = nullptr;  // master: of a bfloat16 parameter, 32 bits
  };
  class Device;

  void check(const Problem& problem) const;
  Held& held(ValueId id, DeviceId device);
  void copy_in(Gpu& gpu, const Reals& to, const std::vector<float>& numbers) const;
  void update(ValueId parameter, DeviceId device, const Reals& gradient);
  void set_corrections();

  const Graph& graph_;
  const TrainingRecipe& recipe_;
  const Model& model_;
  const Schedule& schedule_;
  std::vector<Gpu*> gpus_;
  StepProgram<Array, GpuKernel> ops_;
  cpu::Program numbers_;
  IdMap<DeviceId, std::vector<std::byte*>> host_tables_;  // of CPUs, by tensor: where it is
  std::map<std::pair<ValueId, DeviceId>, Held> held_;
  std::map<std::pair<ValueId, DeviceId>, Reals> inputs_;
  std::int64_t step_ = 0;                  // since the last reset
  std::map<DeviceId, float*> correction_;  // of Adam's moments in this step, on each GPU that updates
  float* loss_ = nullptr;
  Gpu* loss_gpu_ = nullptr;
};

}  // namespace trainyard::cuda
