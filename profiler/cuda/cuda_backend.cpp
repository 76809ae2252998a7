#include "profiler/cuda/cuda_backend.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "profiler/cuda/executor.hpp"
#include "profiler/cuda/green_contexts.hpp"
#include "profiler/cuda/measure.hpp"
#include "profiler/cuda/ops/gpu_program.hpp"
#include "profiler/cuda/plan.hpp"
#include "profiler/memory_of_trace.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::cuda {
namespace {

Nanoseconds rounded(double ns) { return Nanoseconds{std::llround(std::max(0.0, ns))}; }

class CudaRun : public PreparedRun {
 public:
  CudaRun(const Tables& tables, int gpus, const Problem& problem, const Workload& workload, const Schedule& schedule,
          const CudaOptions& options)
      : problem_(problem), schedule_(schedule), gate_(options.gate) {
    const std::size_t devices = problem.device_count();
    std::vector<Target> targets;
    if (devices > static_cast<std::size_t>(gpus)) {
      parts_ = std::make_unique<GreenContexts>(tables, 0, static_cast<unsigned>(devices));
      targets = parts_->targets();
    } else {
      for (std::size_t i = 0; i < devices; ++i) targets.push_back({static_cast<int>(i), {}});
    }
    if (workload.recipe) {
      std::vector<Gpu*> list;
      for (const Target& target : targets) {
        gpus_.push_back(std::make_unique<Gpu>(tables, target.gpu));
        list.push_back(gpus_.back().get());
      }
      program_ = std::make_unique<GpuProgram>(problem, *workload.recipe, workload.seed, schedule, std::move(list));
    } else {
      delays_.resize(devices);
      for (std::size_t i = 0; i < devices; ++i) delays_[i] = std::make_unique<DelayKernels>(tables, targets[i].gpu);
    }
    const IdMap<TensorId, Bytes> sizes = program_ ? program_->tensor_bytes() : IdMap<TensorId, Bytes>{};
    plan_ = make_plan(problem, schedule, simulate(problem, schedule), sizes);
    executor_ = std::make_unique<CudaExecutor>(tables, plan_, std::move(targets));
  }

  const StepTrace& step() override {
    const Launch launch = [this](const PlanItem& item, std::span<void* const> reads, std::span<void* const> writes,
                                 Stream stream) {
      if (program_)
        program_->run(item.op, reads, writes, stream);
      else
        delays_[item.from.index()]->launch(static_cast<double>(problem_.duration(item.op, item.from).count), stream);
    };
    // The first step takes memory, which may wait for the GPU: behind a closed gate it would wait for ever.
    const ExecutionResult result =
        executor_->run(launch, {.warm = 0, .measured = 1, .gate = std::exchange(ran_, true) && gate_});
    if (program_) program_->end_step();
    take(result);
    return trace_;
  }
  void reset() override {
    if (program_) program_->reset();
  }
  std::uint64_t parameter_checksum() const override { return program_ ? program_->parameter_checksum() : 0; }

 private:
  void take(const ExecutionResult& result) {
    const StepRun& run = result.steps.front();
    trace_ = {};
    trace_.makespan = rounded(run.makespan_ns);
    trace_.ops = IdMap<OpId, Span>(problem_.op_count());
    trace_.order = IdMap<DeviceId, std::vector<OpId>>(problem_.device_count());
    for (std::size_t at = 0; at < plan_.items.size(); ++at) {
      const PlanItem& item = plan_.items[at];
      const Span span{rounded(run.items[at].start_ns), rounded(run.items[at].end_ns)};
      if (item.is_transfer) {
        Nanoseconds ready = span.start;
        trace_.transfers.push_back({.tensor = item.tensor,
                                    .from = item.from,
                                    .to = item.to,
                                    .bytes = problem_.graph().bytes(item.tensor),
                                    .ready = ready,
                                    .start = span.start,
                                    .end = span.end});
      } else {
        trace_.ops[item.op] = span;
        if (span.start != span.end) trace_.order[item.from].push_back(item.op);
      }
    }
    for (const Bytes bytes : result.allocated) trace_.allocated += bytes;
    trace_.peak = peaks_of(problem_, schedule_.placement, trace_.ops, trace_.transfers);
    if (!result.gated && gate_) trace_.contaminated = "launches";  // the host's launch times are in it
    trace_.loss = program_ ? program_->loss() : 0;
  }

  const Problem& problem_;
  const Schedule& schedule_;
  const bool gate_;
  std::unique_ptr<GreenContexts> parts_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::unique_ptr<GpuProgram> program_;
  std::vector<std::unique_ptr<DelayKernels>> delays_;
  ExecutionPlan plan_;
  std::unique_ptr<CudaExecutor> executor_;
  bool ran_ = false;
  StepTrace trace_;
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : options_(options) {
    if (!options_.libraries) {
      own_ = system_libraries();
      options_.libraries = own_.get();
    }
    const auto states = load(tables_, *options_.libraries);
    gpus_ = require_gpus(tables_, states);
    require(states, "nvrtc");
    require(states, "cublas");
  }
  std::string name() const override { return "cuda"; }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                       const Schedule& schedule) override {
    std::vector<Finding> findings;
    for (const DeviceId id : problem.devices()) {
      const Device& device = problem.cluster().device(id);
      if (device.device_class != "gpu")
        findings.push_back(
            {.code = "unsupported-device",
             .message = "the cuda backend cannot run ops on '" + device.name + "', a " + device.device_class,
             .help = "give a cluster of GPUs"});
    }
    if (problem.cluster().has_fair_channels())
      findings.push_back({.code = "fair-links",
                          .message = "links of '" + problem.cluster().name() +
                                     "' share their bandwidth among transfers: streams carry one at a time",
                          .help = "give a cluster whose links carry one transfer at a time (sharing = \"serial\")"});
    if (schedule.splits != problem.splits())
      findings.push_back({.code = "splits",
                          .message = "the schedule splits ops, which the cuda backend runs whole",
                          .help = "place with another algorithm than os-dpos and fastt"});
    if (!findings.empty()) throw InputError{std::move(findings)};
    return std::make_unique<CudaRun>(tables_, gpus_, problem, workload, schedule, options_);
  }
  std::vector<LinkMeasurement> measure_links(const Cluster& cluster, std::int64_t) override {
    std::vector<LinkMeasurement> links;
    const int count = std::min(gpus_, static_cast<int>(cluster.device_count()));
    for (int from = 0; from < count; ++from)
      for (int to = 0; to < count; ++to)
        if (from != to) links.push_back(link_ladder(tables_, from, to));
    return links;
  }

 private:
  CudaOptions options_;
  std::unique_ptr<LibrarySource> own_;
  Tables tables_;
  int gpus_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace trainyard::cuda
