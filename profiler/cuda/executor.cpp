#include "profiler/cuda/executor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard::cuda {
namespace {

void check(const Tables& tables, Status status, const char* call) {
  if (status == 0) return;
  const char* text = tables.runtime.cudaGetErrorString ? tables.runtime.cudaGetErrorString(status) : nullptr;
  throw CudaError{call, status, text ? text : "unknown error"};
}

void check_driver(const Tables& tables, Status status, const char* call) {
  if (status == 0) return;
  const char* text = nullptr;
  if (tables.driver.cuGetErrorString) tables.driver.cuGetErrorString(status, &text);
  throw CudaError{call, status, text ? text : "unknown error"};
}

/// Calls `late` from a thread of its own unless it is ended in time.
class Watch {
 public:
  template <class Late>
  Watch(double seconds, Late late)
      : thread_([this, seconds, late] {
          std::unique_lock lock{mutex_};
          if (ended_.wait_for(lock, std::chrono::duration<double>{seconds}, [this] { return over_; })) return;
          fired_ = true;
          late();
        }) {}
  ~Watch() { end(); }
  Watch(Watch&&) = delete;

  /// Whether it was late.
  bool end() {
    {
      const std::scoped_lock lock{mutex_};
      over_ = true;
    }
    ended_.notify_all();
    if (thread_.joinable()) thread_.join();
    return fired_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false, fired_ = false;
  std::thread thread_;
};

}  // namespace

struct CudaExecutor::State {
  const Tables& tables;
  const ExecutionPlan& plan;
  std::vector<Target> targets;
  std::vector<Stream> streams;
  std::vector<Event> starts, ends;  // of items
  std::vector<Event> bases;         // of streams: after the gate
  IdMap<DeviceId, void*> arenas;
  void* gate_word = nullptr;
  DevicePointer gate_address = 0;
  std::uint32_t gate_value = 0;
  bool gate_works = true;

  State(const Tables& t, const ExecutionPlan& p, std::vector<Target> where)
      : tables(t), plan(p), targets(std::move(where)) {}

  const Runtime& cuda() const { return tables.runtime; }
  /// An event must be of its stream's GPU: a link that serves both directions has one stream.
  DeviceId home(const PlanItem& item) const { return plan.stream_device[item.stream]; }
  int gpu(DeviceId device) const { return targets[device.index()].gpu; }
  void use(DeviceId device) const { check(tables, cuda().cudaSetDevice(gpu(device)), "cudaSetDevice"); }

  void allocate() {
    arenas.assign(plan.arena.size(), nullptr);
    for (std::size_t i = 0; i < plan.arena.size(); ++i) {
      const DeviceId device{i};
      if (plan.arena[device].count == 0) continue;
      use(device);
      const Status status = cuda().cudaMalloc(&arenas[device], static_cast<std::size_t>(plan.arena[device].count));
      if (status == kOutOfMemory) {
        std::size_t free = 0, total = 0;
        const bool known = cuda().cudaMemGetInfo(&free, &total) == 0;
        throw MissingError("GPU " + std::to_string(gpu(device)) + " cannot give " + format_bytes(plan.arena[device]) +
                               (known ? ", of " + format_bytes(Bytes{static_cast<std::int64_t>(total)}) + " it has " +
                                            format_bytes(Bytes{static_cast<std::int64_t>(free)}) + " left"
                                      : ""),
                           "end what else runs there, or run a smaller batch");
      }
      check(tables, status, "cudaMalloc");
    }
  }

  void enable_peers() {
    for (const PlanItem& item : plan.items) {
      if (!item.is_transfer || gpu(item.from) == gpu(item.to)) continue;
      int can = 0;
      check(tables, cuda().cudaDeviceCanAccessPeer(&can, gpu(item.from), gpu(item.to)), "cudaDeviceCanAccessPeer");
      if (!can) continue;  // cudaMemcpyPeerAsync then goes through the host
      use(item.from);
      const Status status = cuda().cudaDeviceEnablePeerAccess(gpu(item.to), 0);
      if (status != kPeerAlreadyEnabled) check(tables, status, "cudaDeviceEnablePeerAccess");
    }
  }

  void make_streams() {
    for (const DeviceId device : plan.stream_device) {
      use(device);
      const Target& target = targets[device.index()];
      Stream stream = nullptr;
      if (target.make_stream)
        stream = target.make_stream();
      else
        check(tables, cuda().cudaStreamCreateWithFlags(&stream, kNonBlocking), "cudaStreamCreateWithFlags");
      streams.push_back(stream);
      Event base = nullptr;
      check(tables, cuda().cudaEventCreateWithFlags(&base, 0), "cudaEventCreateWithFlags");
      bases.push_back(base);
    }
    for (const PlanItem& item : plan.items) {
      use(home(item));
      for (std::vector<Event>* events : {&starts, &ends}) {
        Event event = nullptr;
        check(tables, cuda().cudaEventCreateWithFlags(&event, 0), "cudaEventCreateWithFlags");
        events->push_back(event);
      }
    }
  }

  void make_gate() {
    check(tables, cuda().cudaHostAlloc(&gate_word, sizeof(std::uint32_t), kMappedHostMemory), "cudaHostAlloc");
    *static_cast<volatile std::uint32_t*>(gate_word) = 0;
    void* device_address = nullptr;
    check(tables, cuda().cudaHostGetDevicePointer(&device_address, gate_word, 0), "cudaHostGetDevicePointer");
    gate_address = reinterpret_cast<DevicePointer>(device_address);
  }

  void open_gate() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *static_cast<volatile std::uint32_t*>(gate_word) = gate_value;
  }

  void synchronize() const {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      use(plan.stream_device[i]);
      check(tables, cuda().cudaStreamSynchronize(streams[i]), "cudaStreamSynchronize");
    }
  }

  void issue(const PlanItem& item, std::size_t at, const Launch& launch, const CudaExecutor& executor) {
    use(home(item));
    const Stream stream = streams[item.stream];
    for (const std::uint32_t other : item.waits)
      check(tables, cuda().cudaStreamWaitEvent(stream, ends[other], 0), "cudaStreamWaitEvent");
    check(tables, cuda().cudaEventRecord(starts[at], stream), "cudaEventRecord");
    if (item.is_transfer) {
      copy(item, stream, executor);
    } else {
      std::vector<void*> reads, writes;
      for (const BufferPlace& place : item.reads) reads.push_back(executor.address(place));
      for (const BufferPlace& place : item.writes) writes.push_back(executor.address(place));
      launch(item, reads, writes, stream);
    }
    check(tables, cuda().cudaEventRecord(ends[at], stream), "cudaEventRecord");
  }

  void copy(const PlanItem& item, Stream stream, const CudaExecutor& executor) const {
    const auto bytes = static_cast<std::size_t>(item.reads.front().bytes.count);
    if (bytes == 0) return;
    void* to = executor.address(item.writes.front());
    const void* from = executor.address(item.reads.front());
    if (gpu(item.from) == gpu(item.to))
      check(tables, cuda().cudaMemcpyAsync(to, from, bytes, device_to_device, stream), "cudaMemcpyAsync");
    else
      check(tables, cuda().cudaMemcpyPeerAsync(to, gpu(item.to), from, gpu(item.from), bytes, stream),
            "cudaMemcpyPeerAsync");
  }

  /// Nanoseconds from the stream's base on the same GPU; the gate lets all streams go at once.
  double since_base(const PlanItem& item, Event event) const {
    use(home(item));
    float milliseconds = 0;
    check(tables, cuda().cudaEventElapsedTime(&milliseconds, bases[item.stream], event), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e6;
  }

  void release() {
    const Runtime& runtime = cuda();
    for (const Stream stream : streams) runtime.cudaStreamSynchronize(stream);
    for (const Event event : starts) runtime.cudaEventDestroy(event);
    for (const Event event : ends) runtime.cudaEventDestroy(event);
    for (const Event event : bases) runtime.cudaEventDestroy(event);
    for (const Stream stream : streams) runtime.cudaStreamDestroy(stream);
    for (std::size_t i = 0; i < arenas.size(); ++i) {
      void* const arena = arenas[DeviceId{i}];
      if (!arena) continue;
      runtime.cudaSetDevice(gpu(DeviceId{i}));
      runtime.cudaFree(arena);
    }
    if (gate_word) runtime.cudaFreeHost(gate_word);
  }
};

CudaExecutor::CudaExecutor(const Tables& tables, const ExecutionPlan& plan, std::vector<Target> targets)
    : state_(std::make_unique<State>(tables, plan, std::move(targets))) {
  try {
    state_->allocate();
    state_->enable_peers();
    state_->make_streams();
    state_->make_gate();
  } catch (...) {
    state_->release();
    throw;
  }
}

CudaExecutor::~CudaExecutor() {
  // A closed gate would keep the streams waiting for ever.
  state_->gate_value = ~std::uint32_t{0} >> 1;
  state_->open_gate();
  state_->release();
}

void* CudaExecutor::address(const BufferPlace& place) const {
  return static_cast<unsigned char*>(state_->arenas[place.device]) + place.offset.count;
}

ExecutionResult CudaExecutor::run(const Launch& launch, const ExecuteOptions& options) {
  State& state = *state_;
  ExecutionResult result{
      .gated = options.gate && state.gate_works && state.plan.items.size() <= options.most_gated_items,
      .allocated = state.plan.arena};
  for (int step = 0; step < options.warm + options.measured; ++step) {
    ++state.gate_value;
    for (std::size_t i = 0; i < state.streams.size(); ++i) {
      state.use(state.plan.stream_device[i]);
      if (result.gated)
        check_driver(state.tables,
                     state.tables.driver.cuStreamWaitValue32_v2(state.streams[i], state.gate_address, state.gate_value,
                                                                kWaitGreaterOrEqual),
                     "cuStreamWaitValue32");
      check(state.tables, state.cuda().cudaEventRecord(state.bases[i], state.streams[i]), "cudaEventRecord");
    }
    {
      Watch watch{options.most_issue_seconds, [&state] { state.open_gate(); }};
      for (std::size_t at = 0; at < state.plan.items.size(); ++at) state.issue(state.plan.items[at], at, launch, *this);
      if (watch.end() && result.gated) result.gated = state.gate_works = false;
    }
    state.open_gate();
    state.synchronize();
    if (step < options.warm) continue;
    StepRun run;
    for (std::size_t at = 0; at < state.plan.items.size(); ++at) {
      const PlanItem& item = state.plan.items[at];
      run.items.push_back({state.since_base(item, state.starts[at]), state.since_base(item, state.ends[at])});
      run.makespan_ns = std::max(run.makespan_ns, run.items.back().end_ns);
    }
    result.steps.push_back(std::move(run));
  }
  return result;
}

}  // namespace trainyard::cuda
