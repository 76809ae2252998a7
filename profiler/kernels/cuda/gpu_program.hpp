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

/// A training graph on GPUs: parameters, optimizer state and inputs, and the launches of each op. Initial numbers are
/// those of cpu::Program for the same seed. A parameter lives on the one device whose ops use it; values that are not
/// updated are copied to each device that reads them. Devices may also be CPUs, whose ops run by cpu::Program. Values
/// of bfloat16 are stored as such in the GPU's memory, and computed in 32-bit floats.
class GpuProgram {
 public:
  /// `gpus` by device, null for a CPU. Throws InputError: "unsupported-op" naming the operators without a kernel,
  /// "shared-parameter" if ops on two devices use a parameter, "unsupported-device" if a CPU would compute on bfloat16,
  /// "splits" for ops that divide a step among replicas, ranks or microbatches.
  GpuProgram(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed, const Schedule& schedule,
             std::vector<Gpu*> gpus);

  /// Bytes that each tensor takes here.
  IdMap<TensorId, Bytes> tensor_bytes() const;
  /// Launches an op; memory is in the order of the graph's inputs and outputs. Returns the number of launches.
  std::size_t run(OpId op, std::span<void* const> reads, std::span<void* const> writes, Stream stream);
  /// Runs an op of a CPU in memory of the host. Each CPU's ops must run on one thread at a time.
  void run_on_host(OpId op, std::span<void* const> reads, std::span<void* const> writes);
  /// Call when all work of a step has ended: makes the updated parameters current.
  void end_step();
  /// Steps of one variant launch the same kernels with the same arguments: updated weights alternate between two
  /// places.
  int variant() const { return static_cast<int>(step_ % 2); }
  void reset();
  double loss();
  std::uint64_t parameter_checksum();
  /// Current values of a parameter.
  std::vector<float> parameter(ValueId id);

 private:
  struct Held {
    Reals data, next;
    float *master = nullptr, *momentum = nullptr, *variance = nullptr;  // master: 32 bits of a bfloat16 parameter
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
  IdMap<DeviceId, std::vector<std::byte*>> host_tables_;  // of CPUs: address by tensor
  std::map<std::pair<ValueId, DeviceId>, Held> held_;
  std::map<std::pair<ValueId, DeviceId>, Reals> inputs_;
  std::int64_t step_ = 0;                  // since the last reset
  std::map<DeviceId, float*> correction_;  // Adam's bias corrections in this step, on each GPU that updates
  float* loss_ = nullptr;
  Gpu* loss_gpu_ = nullptr;
};

}  // namespace trainyard::cuda
