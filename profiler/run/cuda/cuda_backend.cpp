#include "profiler/run/cuda/cuda_backend.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "profiler/clock.hpp"
#include "profiler/host.hpp"
#include "profiler/kernels/cuda/dnn_batch_norm.hpp"
#include "profiler/kernels/cuda/dnn_pool.hpp"
#include "profiler/kernels/cuda/dnn_softmax.hpp"
#include "profiler/kernels/cuda/gpu_program.hpp"
#include "profiler/kernels/cuda/kernels.hpp"
#include "profiler/run/cuda/alone.hpp"
#include "profiler/run/cuda/delay_kernels.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/gpu_state.hpp"
#include "profiler/run/cuda/green_contexts.hpp"
#include "profiler/run/cuda/link_ladder.hpp"
#include "profiler/run/cuda/plan.hpp"
#include "profiler/run/cuda/steady.hpp"
#include "profiler/run/cuda/tracer.hpp"
#include "profiler/run/memory_of_trace.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::cuda {
namespace {

/// Share of a step lost to other work on the host beyond which its times are invalid.
constexpr double kLostShare = 0.01;

Nanoseconds rounded(double ns) { return Nanoseconds{std::llround(std::max(0.0, ns))}; }

bool is_gpu(const Cluster& cluster, DeviceId device) { return cluster.device(device).device_class == "gpu"; }

class CudaRun : public PreparedRun {
 public:
  /// `parts`: the parts of GPU 0 that serve as the cluster's GPUs; null if these are whole GPUs. `tracer`: records the
  /// launches of each op; may be null. `clocks`: records the clocks during steps. Traced steps are not run as graphs,
  /// since launches of a graph belong to no op.
  CudaRun(const Tables& tables, const GreenContexts* parts, const Problem& problem, const Workload& workload,
          const Schedule& schedule, const CudaOptions& options, ClockLog& clocks, Tracer* tracer = nullptr,
          bool beside_copies = false)
      : problem_(problem),
        schedule_(schedule),
        gate_(options.gate),
        graph_(options.graph && !tracer && !beside_copies),
        beside_copies_(beside_copies),
        tracer_(tracer),
        clocks_(clocks) {
    std::vector<Target> targets = choose_targets(parts);
    if (workload.recipe) {
      std::vector<Gpu*> list;
      for (const Target& target : targets) {
        if (!target.host)
          gpus_.push_back(std::make_unique<Gpu>(tables, target.gpu, parts ? parts->sms() : 0, options.tf32));
        list.push_back(target.host ? nullptr : gpus_.back().get());
      }
      program_ = std::make_unique<GpuProgram>(problem, *workload.recipe, workload.seed, schedule, std::move(list));
    } else {
      delays_.resize(targets.size());
      for (std::size_t i = 0; i < targets.size(); ++i)
        if (!targets[i].host) delays_[i] = std::make_unique<DelayKernels>(tables, targets[i].gpu);
    }
    const IdMap<TensorId, Bytes> sizes = program_ ? program_->tensor_bytes() : IdMap<TensorId, Bytes>{};
    plan_ = make_plan(problem, schedule, simulate(problem, schedule), sizes);
    // All devices have one clock only if everything runs on one GPU.
    one_clock_ = std::all_of(targets.begin(), targets.end(),
                             [&](const Target& target) { return !target.host && target.gpu == targets[0].gpu; });
    for (const Target& target : targets)
      if (!target.host) used_.insert(target.gpu);
    executor_ = std::make_unique<CudaExecutor>(tables, plan_, std::move(targets), options.part_links);
  }

  const StepTrace& step() override {
    take(execute(false));
    return trace_;
  }
  std::optional<Nanoseconds> plain_step() override {
    if (!ran_) step();
    const ExecutionResult result = execute(true);
    const StepRun& run = result.steps.front();
    return result.gated && result.outlasted && usual_clocks_ ? std::optional{rounded(run.makespan_ns)} : std::nullopt;
  }
  void reset() override {
    if (program_) program_->reset();
  }
  std::uint64_t parameter_checksum() const override { return program_ ? program_->parameter_checksum() : 0; }
  std::vector<float> parameter(ValueId id) const override {
    return program_ ? program_->parameter(id) : std::vector<float>{};
  }

 private:
  ExecutionResult execute(bool plain) {
    const Launch launch = [this](const PlanItem& item, std::span<void* const> reads, std::span<void* const> writes,
                                 Stream stream) -> std::size_t {
      if (!stream) return run_on_host(item, reads, writes), 0;
      std::optional<OpScope> scope;
      if (tracer_) scope.emplace(*tracer_, item.op.index());
      if (program_) return program_->run(item.op, reads, writes, stream);
      delays_[item.from.index()]->launch(static_cast<double>(problem_.duration(item.op, item.from).count), stream);
      return 1;
    };
    // The first step allocates memory, which may wait for the GPU: behind a closed gate it would wait forever.
    const bool first = !std::exchange(ran_, true);
    usual_clocks_ = true;
    ExecutionResult result = executor_->run(launch, {.warm = 0,
                                                     .measured = 1,
                                                     .gate = !first && gate_,
                                                     .graph = !first && graph_,
                                                     .variant = program_ ? program_->variant() : 0,
                                                     .plain = plain,
                                                     .beside_copies = !first && beside_copies_,
                                                     .meanwhile = [this] { read_clocks(); },
                                                     .most_queued = launch_queue_entries() * 4 / 5});
    if (program_) program_->end_step();
    return result;
  }

  /// Runs beside the step: NVML answers in tens of microseconds while the GPU works.
  void read_clocks() {
    for (const int gpu : used_)
      if (!clocks_.usual(gpu)) usual_clocks_ = false;
  }

  std::vector<Target> choose_targets(const GreenContexts* parts) const {
    const std::vector<Target> own = parts ? parts->targets() : std::vector<Target>{};
    // The last core first, since the first one launches.
    const std::vector<int> cores = usable_cores();
    std::vector<Target> targets;
    int next_gpu = 0;
    std::size_t next_core = 0;
    for (const DeviceId id : problem_.devices()) {
      const int gpu = next_gpu;
      if (is_gpu(problem_.cluster(), id))
        targets.push_back(parts ? own[static_cast<std::size_t>(gpu)] : Target{.gpu = gpu}), ++next_gpu;
      else
        targets.push_back({.host = true, .core = cores[cores.size() - 1 - next_core++ % cores.size()]});
    }
    return targets;
  }

  void run_on_host(const PlanItem& item, std::span<void* const> reads, std::span<void* const> writes) {
    if (program_) return program_->run_on_host(item.op, reads, writes);
    const std::int64_t until = now_ns() + problem_.duration(item.op, item.from).count;
    while (now_ns() < until) {
    }
  }

  void take(const ExecutionResult& result) {
    const StepRun& run = result.steps.front();
    trace_ = {};
    trace_.makespan = rounded(run.makespan_ns);
    trace_.ops = IdMap<OpId, Span>(problem_.op_count());
    trace_.order = IdMap<DeviceId, std::vector<OpId>>(problem_.device_count());
    double lost = 0;
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
        if (run.items[at].lost_ns + run.items[at].late_ns > 0) {
          if (trace_.lost.empty())
            trace_.lost = trace_.late = IdMap<OpId, Nanoseconds>(problem_.op_count(), Nanoseconds{0});
          trace_.lost[item.op] = rounded(run.items[at].lost_ns);
          trace_.late[item.op] = rounded(run.items[at].late_ns);
          trace_.delayed += trace_.late[item.op];
          lost += run.items[at].lost_ns + run.items[at].late_ns;
        }
        if (span.start != span.end) trace_.order[item.from].push_back(item.op);
      }
    }
    trace_.gaps = gaps_of(run);
    for (const Bytes bytes : result.allocated) trace_.allocated += bytes;
    for (const auto& gpu : gpus_) trace_.allocated += Bytes{static_cast<std::int64_t>(gpu->bytes())};
    trace_.peak = peaks_of(problem_, schedule_.placement, trace_.ops, trace_.transfers);
    constexpr Nanoseconds kClocksDiffer{20'000};
    if (!one_clock_) trace_.clock_skew = kClocksDiffer;
    trace_.times_launches = !result.gated;
    trace_.copied = result.copied;
    if (!result.gated && (gate_ || graph_))
      trace_.contaminated = "launches";
    else if (!usual_clocks_)
      trace_.contaminated = "clock";
    else if (!result.outlasted)
      trace_.contaminated = "copies";
    else if (lost > kLostShare * run.makespan_ns)
      trace_.contaminated = "other-work";
    trace_.loss = program_ ? program_->loss() : 0;
  }

  /// Time between an op and the next one of its device, if that was ready when the op ended.
  IdMap<DeviceId, GapSum> gaps_of(const StepRun& run) const {
    IdMap<DeviceId, GapSum> gaps(problem_.device_count());
    std::vector<const ItemRun*> last(plan_.stream_device.size(), nullptr);
    for (std::size_t at = 0; at < plan_.items.size(); ++at) {
      const PlanItem& item = plan_.items[at];
      if (item.is_transfer || item.before_step) continue;
      const ItemRun& here = run.items[at];
      const ItemRun* before = std::exchange(last[item.stream], &here);
      if (!before) continue;
      const bool ready = std::ranges::all_of(
          item.waits, [&](std::uint32_t other) { return run.items[other].end_ns <= before->end_ns; });
      if (!ready) continue;
      gaps[item.from].sum += rounded(here.start_ns - before->end_ns);
      ++gaps[item.from].count;
    }
    return gaps;
  }

  const Problem& problem_;
  const Schedule& schedule_;
  const bool gate_, graph_, beside_copies_;
  Tracer* const tracer_;
  ClockLog& clocks_;
  std::set<int> used_;  // GPUs
  bool one_clock_ = true, usual_clocks_ = true;
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
      widen_queues();
      own_ = system_libraries();
      options_.libraries = own_.get();
    }
    states_ = load(tables_, *options_.libraries);
    clocks_.emplace(tables_);
    gpus_ = require_gpus(tables_, states_);
    if (embedded_architectures().empty()) require(states_, "nvrtc");
    require(states_, "cublas");
  }
  std::string name() const override { return "cuda"; }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                       const Schedule& schedule) override {
    std::vector<Finding> findings;
    bool any_gpu = false;
    for (const DeviceId id : problem.devices()) {
      const Device& device = problem.cluster().device(id);
      any_gpu = any_gpu || is_gpu(problem.cluster(), id);
      if (device.device_class != "gpu" && device.device_class != "cpu")
        findings.push_back(
            {.code = "unsupported-device",
             .message = "the cuda backend cannot run ops on '" + device.name + "', a " + device.device_class,
             .help = "give a cluster of GPUs and CPUs"});
    }
    if (!any_gpu)
      findings.push_back({.code = "unsupported-device",
                          .message = "the cluster '" + problem.cluster().name() + "' has no GPU",
                          .help = "use --backend cpu, which runs on CPUs only"});
    if (any_gpu && options_.graph)
      for (const DeviceId id : problem.devices())
        if (!is_gpu(problem.cluster(), id)) {
          findings.push_back({.code = "graph-launch",
                              .message = "a step on GPUs and CPUs cannot be one CUDA graph",
                              .help = "use --backend cuda, which launches the step behind a gate"});
          break;
        }
    if (problem.cluster().has_fair_channels())
      findings.push_back(
          {.code = "fair-links",
           .message = "links of '" + problem.cluster().name() +
                      "' share their bandwidth among transfers, but a CUDA stream carries one transfer at a time",
           .help = "give a cluster whose links carry one transfer at a time (sharing = \"serial\")"});
    if (schedule.rewrites != problem.rewrites())
      findings.push_back(
          {.code = "splits",
           .message = "the schedule rewrites the graph (\"splits\"), but the cuda backend runs only the original graph",
           .help = "place it with --no-splits"});
    if (!findings.empty()) throw InputError{std::move(findings)};
    if (workload.recipe && !options_.without_cudnn) require_cudnn(workload.recipe->model);
    for (const DeviceId id : problem.devices())
      if (is_gpu(problem.cluster(), id) && warm_.insert(gpu_of(problem.cluster(), id)).second)
        warm_up(tables_, gpu_of(problem.cluster(), id), *clocks_);
    return std::make_unique<CudaRun>(tables_, parts_for(problem.cluster()), problem, workload, schedule, options_,
                                     *clocks_);
  }
  std::unique_ptr<PreparedRun> prepare_beside_copies(const Problem& problem, const Workload& workload,
                                                     const Schedule& schedule) override {
    return std::make_unique<CudaRun>(tables_, parts_for(problem.cluster()), problem, workload, schedule, options_,
                                     *clocks_, nullptr, true);
  }
  std::optional<double> noise_floor(const Cluster& cluster) override {
    std::map<int, double> floors;
    for (const DeviceId id : cluster.devices())
      if (const int gpu = is_gpu(cluster, id) ? gpu_of(cluster, id) : kHost; gpu != kHost && !floors.contains(gpu))
        floors[gpu] = gpu_noise(tables_, gpu);
    if (floors.empty()) return std::nullopt;
    return std::ranges::max_element(floors, {}, &std::pair<const int, double>::second)->second;
  }
  std::string clock(const Device& device) const override { return device.device_class == "gpu" ? "event" : "host"; }
  Details device_details(const Cluster& cluster, DeviceId id) const override {
    if (!is_gpu(cluster, id)) return {};
    Details details = gpu_state(tables_, gpu_of(cluster, id));
    clocks_->tell(gpu_of(cluster, id), details);
    for (const LibraryState& state : states_)
      if (state.usable() && !state.version.empty()) details[state.name] = state.version;
    details["products"] = options_.tf32 ? "tf32" : "float32";
    const auto dnn = std::ranges::find(states_, "cudnn", &LibraryState::name);
    details["convolutions"] = dnn != states_.end() && dnn->usable()
                                  ? "cudnn"
                                  : "columns and cublas: " + (dnn == states_.end() ? "" : dnn->problem);
    details["batch_norms"] = DnnBatchNorm::there(tables_.dnn) ? "cudnn" : "own kernels";
    details["average_pools"] = DnnPool::there(tables_.dnn) ? "cudnn" : "own kernels";
    details["softmax"] = DnnSoftmax::there(tables_.dnn) ? "cudnn" : "own kernels";
    return details;
  }
  std::vector<AloneSample> time_alone(const Problem& problem, const Workload& workload, DeviceId device,
                                      MeasureMode mode, int samples) override {
    if (!is_gpu(problem.cluster(), device)) return {};
    const GreenContexts* const parts = parts_for(problem.cluster());
    const Target target = parts ? parts->targets().front() : Target{.gpu = gpu_of(problem.cluster(), device)};
    return cuda::time_alone(tables_, target, parts ? parts->sms() : 0, problem, workload, device, mode, samples,
                            options_.tf32);
  }
  std::optional<TracedOps> trace_ops(const Problem& problem, const Workload& workload, const Schedule& schedule,
                                     int steps) override {
    constexpr int kWarm = 2;
    TracedOps result;
    const auto median_step = [&](PreparedRun& run, const auto& after) {
      std::vector<Nanoseconds> times;
      for (int i = -kWarm; i < steps; ++i) {
        const Nanoseconds time = run.step().makespan;
        after(i >= 0);
        if (i >= 0) times.push_back(time);
      }
      return static_cast<double>(upper_quantile_of(std::move(times)).count);
    };
    double plain = 0;
    {
      CudaRun run{tables_, parts_for(problem.cluster()), problem, workload, schedule, options_, *clocks_};
      plain = median_step(run, [](bool) {});
    }
    try {
      Tracer tracer{tables_};
      CudaRun run{tables_, parts_for(problem.cluster()), problem, workload, schedule, options_, *clocks_, &tracer};
      IdMap<OpId, TracedOps::Op> ops(problem.op_count());
      const double traced = median_step(run, [&](bool counts) {
        const ActivityTrace trace = tracer.take();
        if (!counts) return;
        result.dropped += trace.dropped;
        if (trace.dropped > 0) return;  // some op may have lost a kernel
        std::size_t unattributed = 0;
        for (const OpActivity& activity : attribute(trace, &unattributed)) {
          TracedOps::Op& op = ops[OpId{activity.op}];
          op.spans.push_back(activity.span);
          op.kernels = activity.kernels;
          op.names = activity.names;
        }
        result.unattributed += unattributed;
      });
      result.ratio = tracing_ratio(traced, plain);
      for (const OpId id : problem.ops()) {
        if (ops[id].spans.empty()) continue;
        ops[id].op = id;
        result.ops.push_back(std::move(ops[id]));
      }
    } catch (const MissingError& error) {  // events still time the ops
      result.missing = error.what();
    }
    return result;
  }
  std::vector<LinkMeasurement> measure_links(const Cluster& cluster, std::int64_t most_ns) override {
    std::vector<int> ends;  // by device: its GPU on this machine, or the host
    int count = 0;
    for (const DeviceId id : cluster.devices()) ends.push_back(is_gpu(cluster, id) ? count++ : kHost);
    const GreenContexts* const parts = parts_for(cluster);
    // The stream by which the executor copies from parts.
    const std::function<Owned()> own = parts ? [parts] { return parts->make_link_stream(); } : std::function<Owned()>{};
    std::vector<LinkMeasurement> links;
    std::map<std::pair<int, int>, LinkMeasurement> known;  // all parts have the same links
    for (const DeviceId from : cluster.devices())
      for (const DeviceId to : cluster.devices()) {
        const int a = std::min(ends[from.index()], parts ? 0 : gpus_),
                  b = std::min(ends[to.index()], parts ? 0 : gpus_);
        if (from == to || (a == kHost && b == kHost)) continue;
        if (a == b && options_.part_links == PartLinks::emulated) continue;  // the cluster gives their times
        auto measured = known.find({a, b});
        if (measured == known.end())
          measured =
              known
                  .try_emplace({a, b}, link_ladder(tables_, a, b,
                                                   {.most_ns = most_ns,
                                                    .bounced = a == b && options_.part_links == PartLinks::bounced,
                                                    .make_stream = own}))
                  .first;
        links.push_back(measured->second);
        links.back().from = cluster.device(from).name;
        links.back().to = cluster.device(to).name;
      }
    return links;
  }

 private:
  /// Throws MissingError, so that the kernels of a step do not silently depend on the machine.
  void require_cudnn(const Model& model) const {
    const auto dnn = std::ranges::find(states_, "cudnn", &LibraryState::name);
    if (dnn == states_.end() || dnn->usable()) return;
    const auto need = [&](std::initializer_list<const char*> types, const char* what, const char* otherwise) {
      for (const Node& node : model.nodes)
        if (std::ranges::find(types, node.type) != types.end())
          throw MissingError(std::string{what} + " cuDNN: " + dnn->problem,
                             dnn->help + "; or use --without-cudnn to run " + otherwise);
    };
    need({"Conv"}, "convolutions need", "them as im2col and matrix products, several times slower");
    need({"AveragePool"}, "average pools need", "them in Trainyard's own kernels");
    need({"Softmax", "LogSoftmax"}, "softmax needs", "it in Trainyard's own kernels");
  }

  /// The machine's GPU on which the device runs, as a whole or as a part of it.
  int gpu_of(const Cluster& cluster, DeviceId id) const {
    int gpu = 0, wanted = 0;
    for (const DeviceId other : cluster.devices()) {
      if (!is_gpu(cluster, other)) continue;
      if (other < id) ++gpu;
      ++wanted;
    }
    return wanted > gpus_ ? 0 : gpu;
  }

  /// The parts of GPU 0 on which the cluster's GPUs run, split once for all runs, since drivers limit the number of
  /// parts. Null if the machine has a GPU for each.
  const GreenContexts* parts_for(const Cluster& cluster) {
    const auto wanted = std::ranges::count_if(cluster.devices(), [&](DeviceId id) { return is_gpu(cluster, id); });
    if (wanted <= gpus_) return nullptr;
    auto& parts = parts_[static_cast<unsigned>(wanted)];
    if (!parts) parts = std::make_unique<GreenContexts>(tables_, 0, static_cast<unsigned>(wanted));
    return parts.get();
  }

  CudaOptions options_;
  std::unique_ptr<LibrarySource> own_;
  Tables tables_;
  std::optional<ClockLog> clocks_;
  std::set<int> warm_;                                        // GPUs
  std::map<unsigned, std::unique_ptr<GreenContexts>> parts_;  // by their number
  std::vector<LibraryState> states_;
  int gpus_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace trainyard::cuda
