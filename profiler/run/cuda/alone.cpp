#include "profiler/run/cuda/alone.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/kernels/cuda/gpu_program.hpp"
#include "profiler/measure/measure.hpp"

namespace trainyard::cuda {
namespace {

/// A step's tensors, all at once, and its ops, each of which has run.
class Stage {
 public:
  Stage(const Tables& tables, const Target& target, unsigned sms, const Problem& problem, const Workload& workload,
        DeviceId device, bool tf32)
      : cuda_(tables.runtime),
        graph_(problem.graph()),
        schedule_(serial_schedule(problem, device)),
        gpu_(tables, target.gpu, sms, tf32),
        program_(problem, *workload.recipe, workload.seed, schedule_, only(problem, device)),
        place_(graph_.tensor_count(), nullptr),
        launches_(graph_.op_count(), 0) {
    check(cuda_.cudaSetDevice(target.gpu), "cudaSetDevice");
    const IdMap<TensorId, Bytes> bytes = program_.tensor_bytes();
    for (const TensorId tensor : graph_.tensors())
      place_[tensor] = gpu_.keep((static_cast<std::size_t>(bytes[tensor].count) + 3) / sizeof(float));
    int l2 = 0;
    check(cuda_.cudaDeviceGetAttribute(&l2, l2_bytes, target.gpu), "cudaDeviceGetAttribute");
    swept_ = static_cast<std::size_t>(std::max(l2, 4));  // words: four times its bytes
    sweep_ = gpu_.keep(swept_);
    begin_ = make_event(cuda_);
    end_ = make_event(cuda_);
    stream_ = target.make_stream ? target.make_stream() : make_stream(cuda_);
    for (const OpId op : graph_.topological_order()) run(op);
    check(cuda_.cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }
  Stage(Stage&&) = delete;

  Nanoseconds time(OpId op, bool cold) {
    gpu_.begin(stream_.get());
    if (cold) gpu_.each("sweep_l2", swept_, static_cast<void*>(sweep_));
    // While this runs, the host launches the op: its pieces then follow each other without waiting for launches.
    constexpr unsigned long long kFirst = 50'000, kEach = 10'000;  // nanoseconds
    gpu_.rows("delay_ns", 1, kFirst + kEach * launches_[op]);
    check(cuda_.cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
    run(op);
    check(cuda_.cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
    check(cuda_.cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(cuda_.cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return Nanoseconds{std::llround(static_cast<double>(milliseconds) * 1e6)};
  }

 private:
  std::vector<Gpu*> only(const Problem& problem, DeviceId device) {
    std::vector<Gpu*> gpus(problem.device_count(), nullptr);
    gpus[device.index()] = &gpu_;
    return gpus;
  }
  void check(Status status, const char* call) const { cuda::check(cuda_, status, call); }
  void run(OpId op) {
    std::vector<void*> reads, writes;
    for (const TensorId tensor : graph_.inputs(op)) reads.push_back(place_[tensor]);
    for (const TensorId tensor : graph_.outputs(op)) writes.push_back(place_[tensor]);
    launches_[op] = program_.run(op, reads, writes, stream_.get());
  }

  const Runtime& cuda_;
  const Graph& graph_;
  const Schedule schedule_;
  Gpu gpu_;
  GpuProgram program_;
  IdMap<TensorId, float*> place_;
  IdMap<OpId, std::size_t> launches_;  // pieces of work of each op
  float* sweep_ = nullptr;
  std::size_t swept_ = 0;
  Owned begin_, end_, stream_;
};

}  // namespace

std::vector<AloneSample> time_alone(const Tables& tables, const Target& target, unsigned sms, const Problem& problem,
                                    const Workload& workload, DeviceId device, MeasureMode mode, int samples,
                                    bool tf32) {
  std::vector<AloneSample> result;
  if (!workload.recipe) return result;
  Stage stage{tables, target, sms, problem, workload, device, tf32};
  const bool cold = mode == MeasureMode::cold;
  for (const OpId op : problem.ops()) {
    if (problem.graph().type(op) == "Input") continue;
    for (int i = cold ? 0 : -2; i < samples; ++i) {
      const Nanoseconds time = stage.time(op, cold);
      if (i >= 0) result.push_back({op, time, Nanoseconds{0}});
    }
  }
  return result;
}

}  // namespace trainyard::cuda
