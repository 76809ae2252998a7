#include "profiler/run/cuda/fake_cuda.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "profiler/kernels/cuda/host_kernels.hpp"
#include "profiler/run/cuda/activity_records.hpp"

namespace trainyard::test {
namespace {

using cuda::Event;
using cuda::Status;
using cuda::Stream;

struct FakeGraph;

/// A green context: a part of a GPU.
struct FakeContext {
  int device = 0;
  unsigned sms = 0;
  std::vector<std::pair<double, double>> computed, copied;  // intervals of kernels and copies on its SMs
};
/// A cuBLAS handle. `workspace` is null if cuBLAS would use its own.
struct FakeBlas {
  Stream stream = nullptr;
  unsigned sms = 0;  // the SM target; 0: all SMs
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

struct FakeEvent {
  FakeGraph* captured = nullptr;  // graph that captured its last record, which only orders work there
  int device = 0;
  bool timing = true;
  std::uint64_t recorded = 0, done = 0;
  double at = 0;
};

struct Access {
  const unsigned char* begin;
  const unsigned char* end;
  bool writes;
};

struct Command {
  enum class Kind { work, record, wait, gate, write } kind;
  double ns = 0;
  std::function<void()> effect;
  std::vector<Access> accesses;
  FakeEvent* event = nullptr;
  std::uint64_t ticket = 0;
  std::uint32_t* word = nullptr;
  std::uint32_t value = 0;
  std::uint32_t correlation = 0;  // CUPTI's correlation id, if traced
  const char* name = "";
  std::size_t copied = 0;       // in bytes
  int engine = -1;              // copy engine of the GPU; -1: unlimited
  bool by_sms = false;          // a copy made by a kernel
  double issued = 0;            // host time of the launch
  const void* mark = nullptr;   // mark_ns: stores the start here
  const void* since = nullptr;  // delay_since: ends `ns` after the time stored here
};

struct FakeStream {
  FakeGraph* capture = nullptr;
  FakeContext* context = nullptr;  // null: the GPU's primary context
  int device = 0;
  std::deque<Command> queue;
  double now = 0, copied_until = 0;
};

struct FakeGraph {
  FakeStream* origin = nullptr;
  std::set<FakeStream*> streams;
  std::vector<std::pair<FakeStream*, Command>> commands;
  bool destroyed = false;
};

struct Done {
  double start, end;
  std::vector<Access> accesses;
};

struct Machine {
  FakeCudaOptions options;
  int current = 0;
  std::vector<std::unique_ptr<FakeStream>> streams;
  std::vector<std::unique_ptr<FakeEvent>> events;
  std::map<const unsigned char*, std::pair<std::size_t, int>> memory;  // begin -> (size, GPU; -1: host)
  std::vector<std::pair<const unsigned char*, std::size_t>> freed;     // blocks go back to the system only at the end
  std::vector<std::size_t> used;
  std::set<std::string> kernel_names;  // names that were looked up
  std::vector<std::unique_ptr<FakeBlas>> blas;
  std::vector<std::unique_ptr<Stream>> dnn;  // the stream of each handle
  std::vector<std::unique_ptr<std::vector<int>>> descriptors;
  std::vector<std::unique_ptr<FakeContext>> contexts;
  std::size_t kernel_libraries = 0;
  std::vector<std::unique_ptr<FakeGraph>> graphs;
  std::vector<std::unique_ptr<FakeGraph>> executables;  // copies of graphs at their instantiation
  std::set<int> begun;                                  // GPUs with a context, that is, made current once
  std::size_t kernels = 0;                              // number launched
  std::size_t clocks_told = 0;
  cuda::Cupti::Request request = nullptr;
  cuda::Cupti::Complete complete = nullptr;
  std::set<int> traced;               // enabled kinds of records
  std::vector<std::uint64_t> pushed;  // stack of external correlation ids
  std::vector<std::vector<std::uint8_t>> records;
  std::size_t next_record = 0;  // position in the buffer handed out
  std::uint32_t correlation = 0;
  std::map<std::string, int> calls;
  std::vector<std::string> violations;
  std::vector<Done> done;
  double host = 0;  // host time: the end of the latest stream it waited for

  /// The planted error, if this is the call that must fail; else 0.
  Status fault(const char* function) {
    const int call = ++calls[function];
    return options.fails == function && call == options.fails_at ? options.status : 0;
  }

  void violate(const std::string& what) {
    violations.push_back(what);
    if (options.collect) return;
    std::fprintf(stderr, "fake CUDA: %s\n", what.c_str());
    std::abort();
  }

  /// Sets `device` to the GPU that holds the bytes, or -1 for host memory. Returns false if they are freed or extend
  /// beyond their block.
  bool owner(const void* at, std::size_t size, int& device) const {
    const auto* byte = static_cast<const unsigned char*>(at);
    device = -1;
    for (const auto& [begin, length] : freed)
      if (byte < begin + length && begin < byte + size) return false;
    auto block = memory.upper_bound(byte);
    if (block == memory.begin()) return true;
    --block;
    if (byte >= block->first + block->second.first) return true;
    device = block->second.second;
    return byte + size <= block->first + block->second.first;
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (const auto& stream : streams)
        while (!stream->queue.empty() && step(*stream)) moved = true;
    }
  }

  bool step(FakeStream& stream) {
    Command& command = stream.queue.front();
    stream.now = std::max(stream.now, command.issued);
    switch (command.kind) {
      case Command::Kind::record:
        command.event->done = command.ticket;
        command.event->at = stream.now;
        if (command.event->timing) stream.now += options.event_ns;
        break;
      case Command::Kind::wait:
        if (command.event->done < command.ticket) return false;
        stream.now = std::max(stream.now, command.event->at);
        break;
      case Command::Kind::gate:
        if (!reached(command)) return false;
        stream.now = std::max(stream.now, is_gate(command.word) ? gate_time(command.word, command.value) : latest());
        break;
      case Command::Kind::write:
        __atomic_store_n(command.word, command.value, __ATOMIC_SEQ_CST);
        break;
      case Command::Kind::work: {
        const double start =
            command.engine < 0 ? stream.now : turn(engines[{stream.device, command.engine}], stream.now, command.ns);
        if (options.slowed_by_copies > 0 && *command.name != 0 && copies_beside(stream))
          command.ns *= 1 + options.slowed_by_copies;
        if (command.mark) marks[command.mark] = start;
        stream.now = command.since ? std::max(start, marks.at(command.since) + command.ns) : start + command.ns;
        if (command.copied > 0) stream.copied_until = stream.now;
        if (stream.context) check_part(*stream.context, command, start, stream.now);
        check_memory(command.accesses);
        check_races(start, stream.now, command.accesses);
        if (command.effect) command.effect();
        if (command.correlation > 0) trace_work(stream, command, start);
        if (!command.accesses.empty()) done.push_back({start, stream.now, std::move(command.accesses)});
        break;
      }
    }
    stream.queue.pop_front();
    return true;
  }

  /// The first time from `now` on at which an engine with the intervals `busy` is free for `ns`; reserves it.
  static double turn(std::map<double, double>& busy, double now, double ns) {
    for (const auto& [begin, end] : busy) {
      if (begin >= now + ns) break;
      now = std::max(now, end);
    }
    busy[now] = now + ns;
    return now;
  }

  /// Whether another stream of the GPU has copies queued, or copies that end after this stream's time.
  bool copies_beside(const FakeStream& stream) const {
    return std::any_of(streams.begin(), streams.end(), [&](const auto& other) {
      return other.get() != &stream && other->device == stream.device &&
             (other->copied_until > stream.now ||
              std::any_of(other->queue.begin(), other->queue.end(), [](const Command& c) { return c.copied > 0; }));
    });
  }
  static bool reached(const Command& command) {
    return static_cast<std::int32_t>(__atomic_load_n(command.word, __ATOMIC_SEQ_CST) - command.value) >= 0;
  }
  /// Whether `word` is a start gate: a block of one word. Other words are written by host threads in real time; work
  /// that waits for such a word runs, in virtual time, after all work so far.
  bool is_gate(const std::uint32_t* word) const {
    const auto block = memory.find(reinterpret_cast<const unsigned char*>(word));
    return block != memory.end() && block->second.first == sizeof(std::uint32_t);
  }
  double latest() const {
    double time = 0;
    for (const auto& stream : streams) time = std::max(time, stream->now);
    return time;
  }
  /// The virtual time at which streams pass a gate: the latest time of any stream when the first one passes it.
  double gate_time(const std::uint32_t* word, std::uint32_t value) {
    const auto known = gates.find({word, value});
    if (known != gates.end()) return known->second += options.gate_skew_ns;
    done.clear();  // work before the gate cannot race with work after it
    return gates[{word, value}] = latest();
  }
  /// Whether a stream waits for a word that a host thread may still write.
  bool waits_for_host() const {
    return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) {
      return !stream->queue.empty() && stream->queue.front().kind == Command::Kind::gate &&
             !is_gate(stream->queue.front().word);
    });
  }

  template <class Record>
  void add_record(const Record& record) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
    records.emplace_back(bytes, bytes + sizeof record);
  }
  /// Counts a launch and returns its correlation id, with a record of the pushed external id; 0 if tracing is off.
  std::uint32_t launched() {
    if (traced.empty()) return 0;
    ++correlation;
    const bool calls_are_traced = traced.contains(cuda::kDriverRecord) && traced.contains(cuda::kRuntimeRecord);
    if (!pushed.empty() && calls_are_traced && traced.contains(cuda::kExternalCorrelationRecord)) {
      cuda::ExternalCorrelationRecord record{};
      record.kind = cuda::kExternalCorrelationRecord;
      record.external_kind = cuda::kCustomCorrelation;
      record.external_id = pushed.back();
      record.correlation = correlation;
      add_record(record);
    }
    return correlation;
  }
  void trace_work(const FakeStream& stream, const Command& command, double start) {
    if (command.copied > 0 && traced.contains(cuda::kMemcpyRecord)) {
      cuda::MemcpyRecord record{};
      record.kind = cuda::kMemcpyRecord;
      record.bytes = command.copied;
      record.start = static_cast<std::uint64_t>(start);
      record.end = static_cast<std::uint64_t>(stream.now);
      record.correlation = command.correlation;
      record.channel_type = command.by_sms ? cuda::kComputeChannel : cuda::kCopyChannel;
      return add_record(record);
    }
    if (!traced.contains(cuda::kConcurrentKernelRecord) || *command.name == 0) return;
    cuda::KernelRecord record{};
    record.kind = cuda::kConcurrentKernelRecord;
    record.start = static_cast<std::uint64_t>(start);
    record.end = static_cast<std::uint64_t>(stream.now);
    record.device = static_cast<std::uint32_t>(stream.device);
    record.correlation = command.correlation;
    record.name = command.name;
    add_record(record);
  }
  std::map<std::pair<const std::uint32_t*, std::uint32_t>, double> gates;
  std::map<const void*, double> marks;
  std::map<std::pair<int, int>, std::map<double, double>> engines;  // (GPU, direction) -> busy intervals

  void check_part(FakeContext& part, const Command& command, double start, double end) {
    if (!command.by_sms && *command.name == 0) return;
    for (const auto& [from, to] : command.by_sms ? part.computed : part.copied)
      if (from < end && start < to) violate("a copy takes the SMs of a part that computes");
    (command.by_sms ? part.copied : part.computed).emplace_back(start, end);
  }

  void check_memory(const std::vector<Access>& accesses) {
    int device = 0;
    for (const Access& access : accesses)
      if (!owner(access.begin, static_cast<std::size_t>(access.end - access.begin), device))
        violate("work on memory that is not there, or was freed");
  }

  void check_races(double start, double end, const std::vector<Access>& accesses) {
    for (const Done& other : done) {
      if (other.end <= start || other.start >= end) continue;
      for (const Access& a : accesses)
        for (const Access& b : other.accesses)
          if ((a.writes || b.writes) && a.begin < b.end && b.begin < a.end)
            return violate("two pieces of work touch the same bytes at once, and one of them writes");
    }
  }

  bool is_pending(const unsigned char* begin, const unsigned char* end) const {
    for (const auto& stream : streams)
      for (const Command& command : stream->queue)
        for (const Access& access : command.accesses)
          if (access.begin < end && begin < access.end) return true;
    return false;
  }
};

std::unique_ptr<Machine> machine;

FakeStream& stream_of(Stream stream) { return *static_cast<FakeStream*>(stream); }
FakeEvent& event_of(Event event) { return *static_cast<FakeEvent*>(event); }

void issue(Stream stream, Command command) {
  if (FakeGraph* graph = stream_of(stream).capture) {
    graph->commands.emplace_back(&stream_of(stream), std::move(command));
    return;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  while (stream_of(stream).queue.size() >= machine->options.queue) {
    machine->run();
    if (std::chrono::steady_clock::now() > until) machine->violate("the host waits for a full queue that waits for it");
  }
  command.issued = machine->host;
  stream_of(stream).queue.push_back(std::move(command));
}

Access reads(const void* at, std::size_t size) {
  const auto* byte = static_cast<const unsigned char*>(at);
  return {byte, byte + size, false};
}
Access writes(const void* at, std::size_t size) {
  const auto* byte = static_cast<const unsigned char*>(at);
  return {byte, byte + size, true};
}

template <class Things, class Thing>
bool remove(Things& things, Thing* thing) {
  return std::erase_if(things, [&](const auto& owned) { return owned.get() == thing; }) > 0;
}

// --- CUDA driver ---
Status cu_init(unsigned) { return machine->fault("cuInit"); }
Status cu_version(int* version) { return *version = machine->options.driver_version, 0; }
Status cu_error(Status, const char** text) { return *text = "a fault of the fake driver", 0; }
Status cu_device(int* device, int ordinal) { return *device = ordinal, ordinal < machine->options.devices ? 0 : 101; }
Status cu_name(char* name, int length, int) { return std::snprintf(name, static_cast<std::size_t>(length), "Fake"), 0; }
Status cu_resource(int, cuda::DeviceResource* resource, int type) {
  resource->type = type;
  resource->sm = {machine->options.sms, 8, 8};
  return machine->fault("cuDeviceGetDevResource");
}
Status cu_split(cuda::DeviceResource* result, unsigned* groups, const cuda::DeviceResource* input,
                cuda::DeviceResource* rest, unsigned, unsigned least) {
  const unsigned each = (std::max(least, 8u) + 7) / 8 * 8;  // the driver rounds up
  *groups = std::min(*groups, input->sm.sm_count / each);
  for (unsigned i = 0; i < *groups; ++i) {
    result[i] = *input;
    result[i].sm.sm_count = each;
  }
  *rest = *input;
  rest->sm.sm_count = input->sm.sm_count - *groups * each;
  return machine->fault("cuDevSmResourceSplitByCount");
}
Status cu_description(void** description, cuda::DeviceResource* resource, unsigned) {
  return *description = resource, machine->fault("cuDevResourceGenerateDesc");
}
Status cu_green(void** context, void* description, int device, unsigned flags) {
  if (flags != cuda::kGreenDefaultStream) machine->violate("a green context without its required flag");
  if (!machine->begun.contains(device)) machine->violate("a green context of a GPU without a context of its own");
  if (const Status status = machine->fault("cuGreenCtxCreate")) return status;
  const unsigned sms = static_cast<cuda::DeviceResource*>(description)->sm.sm_count;
  if (sms < machine->options.least_part) return 914;  // CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION
  machine->contexts.push_back(std::make_unique<FakeContext>(FakeContext{.device = device, .sms = sms}));
  *context = machine->contexts.back().get();
  return 0;
}
Status cu_green_destroy(void* context) { return remove(machine->contexts, static_cast<FakeContext*>(context)) ? 0 : 1; }

Status new_stream(Stream* stream, int device, FakeContext* context = nullptr) {
  machine->streams.push_back(std::make_unique<FakeStream>());
  machine->streams.back()->device = device;
  machine->streams.back()->context = context;
  *stream = machine->streams.back().get();
  return 0;
}
Status cu_green_stream(Stream* stream, void* context, unsigned, int) {
  if (const Status status = machine->fault("cuGreenCtxStreamCreate")) return status;
  FakeContext& part = *static_cast<FakeContext*>(context);
  return new_stream(stream, part.device, &part);
}
Status cu_library(void** library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  if (const Status status = machine->fault("cuLibraryLoadData")) return status;
  ++machine->kernel_libraries;
  return *library = machine.get(), 0;
}
Status cu_library_unload(void*) { return --machine->kernel_libraries, 0; }
/// The handle of a kernel is its name.
Status cu_kernel(void** kernel, void*, const char* name) {
  *kernel = const_cast<std::string*>(&*machine->kernel_names.insert(name).first);
  return machine->fault("cuLibraryGetKernel");
}
constexpr double kCyclesPerNs = 1.75;
Status cu_launch(void* function, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 Stream stream, void** arguments, void**) {
  if (const Status status = machine->fault("cuLaunchKernel")) return status;
  const std::string& name = *static_cast<const std::string*>(function);
  Command command{.kind = Command::Kind::work};
  const auto whole = [&](int i) { return static_cast<double>(*static_cast<unsigned long long*>(arguments[i])); };
  const double tick = machine->options.timer_tick_ns;
  command.ns = name == "delay_ns" ? std::ceil(whole(0) / tick) * tick
               : name == "delay_cycles"
                   ? whole(0) / kCyclesPerNs
                   : 1'000 * (1 + machine->options.kernel_drift * static_cast<double>(machine->kernels));
  ++machine->kernels;
  if (name == "mark_ns") command.mark = *static_cast<void**>(arguments[0]), command.ns = 0;
  if (name == "delay_since") {
    command.since = *static_cast<void**>(arguments[0]);
    command.ns = static_cast<double>(*static_cast<unsigned long long*>(arguments[1]));
  }
  machine->host += machine->options.launch_ns;
  command.effect = host_kernel(name, blocks, arguments, machine->options.threads);
  if (!command.effect) machine->violate("a kernel that is not there: " + name);
  if (name == "timer_rate")
    command.effect = [to = *static_cast<std::uint64_t**>(arguments[0]), tick] {
      to[0] = static_cast<std::uint64_t>(tick), to[1] = 1'000'000,
      to[2] = static_cast<std::uint64_t>(1e6 * kCyclesPerNs);
    };
  command.correlation = machine->launched();
  if (command.correlation > 0) command.ns += machine->options.tracing_ns;
  command.name = name.c_str();
  issue(stream, std::move(command));
  return 0;
}

// --- cuBLAS ---
Status blas_create(void** handle) {
  if (const Status status = machine->fault("cublasCreate_v2")) return status;
  machine->blas.push_back(std::make_unique<FakeBlas>());
  *handle = machine->blas.back().get();
  return 0;
}
Status blas_destroy(void* handle) { return remove(machine->blas, static_cast<FakeBlas*>(handle)) ? 0 : 1; }
Status blas_stream(void* handle, Stream stream) {
  FakeBlas& blas = *static_cast<FakeBlas*>(handle);
  blas.stream = stream;
  blas.workspace = nullptr;  // as cuBLAS does
  return machine->fault("cublasSetStream_v2");
}
Status blas_workspace(void* handle, void* memory, std::size_t bytes) {
  FakeBlas& blas = *static_cast<FakeBlas*>(handle);
  blas.workspace = memory;
  blas.workspace_bytes = bytes;
  return machine->fault("cublasSetWorkspace_v2");
}
Status blas_sms(void* handle, int sms) {
  static_cast<FakeBlas*>(handle)->sms = static_cast<unsigned>(sms);
  return machine->fault("cublasSetSmCountTarget");
}
Status gemm(const char* name, void* handle, std::function<void()> effect) {
  Command command{.kind = Command::Kind::work, .ns = 2'000};
  command.correlation = machine->launched();
  if (command.correlation > 0) command.ns += machine->options.tracing_ns;
  command.name = name;
  command.effect = std::move(effect);
  const FakeBlas& blas = *static_cast<FakeBlas*>(handle);
  const FakeStream& stream = stream_of(blas.stream);
  if (const unsigned sms = stream.context ? stream.context->sms : 0; sms != blas.sms)
    machine->violate("a product is chosen for " + std::to_string(blas.sms) + " SMs and runs on " + std::to_string(sms) +
                     " (0: all)");
  if (blas.workspace)
    command.accesses = {writes(blas.workspace, blas.workspace_bytes)};
  else if (stream.capture)
    machine->violate("a captured product has cuBLAS's own workspace, which is allocated there");
  issue(blas.stream, std::move(command));
  return 0;
}
HostArray array(const void* at, bool is_short, bool tf32 = false) { return {const_cast<void*>(at), is_short, tf32}; }
Status blas_sgemm(void* handle, int turn_a, int turn_b, int m, int n, int k, const float* alpha, const float* a,
                  int lda, const float* b, int ldb, const float* beta, float* c, int ldc) {
  if (const Status status = machine->fault("cublasSgemm_v2")) return status;
  return gemm("sgemm", handle, [=, by = *alpha, keep = *beta] {
    host_gemm(turn_a != 0, turn_b != 0, m, n, k, by, array(a, false), lda, array(b, false), ldb, keep, array(c, false),
              ldc);
  });
}
/// Accepts the type combinations in use, a subset of those that cuBLAS lists for float accumulation.
Status blas_gemm_ex(void* handle, int turn_a, int turn_b, int m, int n, int k, const void* alpha, const void* a,
                    int type_a, int lda, const void* b, int type_b, int ldb, const void* beta, void* c, int type_c,
                    int ldc, int compute, int) {
  if (const Status status = machine->fault("cublasGemmEx")) return status;
  const auto known = [](int type) { return type == cuda::kBlasFloat || type == cuda::kBlasShort; };
  const bool tf32 = compute == cuda::kBlasTf32Sums && type_a == cuda::kBlasFloat;
  if ((compute != cuda::kBlasFloatSums && !tf32) || type_a != type_b || !known(type_a) || !known(type_c) ||
      (type_a == cuda::kBlasFloat && type_c != cuda::kBlasFloat)) {
    machine->violate("a product of types that cuBLAS has not");
    return 15;
  }
  const bool is_short = type_a == cuda::kBlasShort;
  return gemm("gemm_ex", handle, [=, by = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta)] {
    host_gemm(turn_a != 0, turn_b != 0, m, n, k, by, array(a, is_short, tf32), lda, array(b, is_short, tf32), ldb, keep,
              array(c, type_c == cuda::kBlasShort), ldc);
  });
}
Status blas_gemm_batched(void* handle, int turn_a, int turn_b, int m, int n, int k, const void* alpha, const void* a,
                         int type_a, int lda, long long step_a, const void* b, int type_b, int ldb, long long step_b,
                         const void* beta, void* c, int type_c, int ldc, long long step_c, int count, int compute,
                         int) {
  if (const Status status = machine->fault("cublasGemmStridedBatchedEx")) return status;
  const bool tf32 = compute == cuda::kBlasTf32Sums && type_a == cuda::kBlasFloat;
  if ((compute != cuda::kBlasFloatSums && !tf32) || type_a != type_b ||
      (type_a == cuda::kBlasFloat && type_c != type_a)) {
    machine->violate("products of types that cuBLAS has not");
    return 15;
  }
  const auto at = [tf32](const void* data, int type, long long elements) {
    const bool is_short = type == cuda::kBlasShort;
    return array(static_cast<const char*>(data) + elements * (is_short ? 2 : 4), is_short, tf32);
  };
  return gemm("gemm_batched", handle,
              [=, by = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta)] {
                for (long long i = 0; i < count; ++i)
                  host_gemm(turn_a != 0, turn_b != 0, m, n, k, by, at(a, type_a, i * step_a), lda,
                            at(b, type_b, i * step_b), ldb, keep, at(c, type_c, i * step_c), ldc);
              });
}
Status cu_wait_value(Stream stream, cuda::DevicePointer address, std::uint32_t value, unsigned) {
  if (const Status status = machine->fault("cuStreamWaitValue32_v2")) return status;
  Command command{.kind = Command::Kind::gate};
  command.word = reinterpret_cast<std::uint32_t*>(address);
  command.value = value;
  issue(stream, std::move(command));
  return 0;
}
Status cu_write_value(Stream stream, cuda::DevicePointer address, std::uint32_t value, unsigned) {
  if (const Status status = machine->fault("cuStreamWriteValue32_v2")) return status;
  Command command{.kind = Command::Kind::write};
  command.word = reinterpret_cast<std::uint32_t*>(address);
  command.value = value;
  issue(stream, std::move(command));
  return 0;
}

// --- CUDA runtime ---
Status rt_version(int* version) { return *version = machine->options.runtime_version, 0; }
Status rt_count(int* count) {
  *count = machine->options.devices;
  if (const Status status = machine->fault("cudaGetDeviceCount")) return status;
  return *count > 0 ? 0 : cuda::kNoDevice;
}
const char* rt_error(Status status) { return status == cuda::kOutOfMemory ? "out of memory" : "a planted fault"; }
Status rt_set_device(int device) {
  if (device < 0 || device >= machine->options.devices) return 101;
  machine->current = device;
  machine->begun.insert(device);
  return machine->fault("cudaSetDevice");
}
Status rt_attribute(int* value, int attribute, int) {
  *value = attribute == cuda::sm_count           ? static_cast<int>(machine->options.sms)
           : attribute == cuda::capability_major ? 9
           : attribute == cuda::capability_minor ? 0
                                                 : 3;
  return 0;
}
Status wait_for_all() {
  machine->run();
  for (const auto& stream : machine->streams) machine->host = std::max(machine->host, stream->now);
  return 0;
}
Status rt_stream(Stream* stream, unsigned flags) {
  if (flags != cuda::kNonBlocking) machine->violate("a stream that waits for the default stream");
  if (const Status status = machine->fault("cudaStreamCreateWithFlags")) return status;
  return new_stream(stream, machine->current);
}
Status rt_stream_destroy(Stream stream) {
  if (!stream_of(stream).queue.empty()) machine->violate("a stream is destroyed with work in it");
  return remove(machine->streams, &stream_of(stream)) ? 0 : 400;
}
Status rt_stream_synchronize(Stream stream) {
  if (const Status status = machine->fault("cudaStreamSynchronize")) {
    for (const auto& each : machine->streams) each->queue.clear();  // after such an error the GPU runs nothing
    return status;
  }
  if (stream_of(stream).capture) machine->violate("the host waits for a stream that is captured");
  machine->run();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  while (!stream_of(stream).queue.empty() && machine->waits_for_host() && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    machine->run();
  }
  if (!stream_of(stream).queue.empty()) machine->violate("the host waits for a stream that waits for ever");
  machine->host = std::max(machine->host, stream_of(stream).now);
  return 0;
}
Status rt_stream_wait(Stream stream, Event event, unsigned) {
  if (const Status status = machine->fault("cudaStreamWaitEvent")) return status;
  if (event_of(event).recorded == 0) machine->violate("a wait for an event that was never recorded: it does nothing");
  FakeGraph* const graph = event_of(event).captured;
  if (graph && !stream_of(stream).capture) {
    stream_of(stream).capture = graph;  // the stream joins the capture
    graph->streams.insert(&stream_of(stream));
  }
  if (stream_of(stream).capture != graph)
    machine->violate("a captured stream waits for an event from outside of the capture");
  Command command{.kind = Command::Kind::wait};
  command.event = &event_of(event);
  command.ticket = event_of(event).recorded;
  issue(stream, std::move(command));
  return 0;
}
Status rt_event(Event* event, unsigned flags) {
  if (const Status status = machine->fault("cudaEventCreateWithFlags")) return status;
  machine->events.push_back(std::make_unique<FakeEvent>());
  machine->events.back()->device = machine->current;
  machine->events.back()->timing = (flags & cuda::kNoTiming) == 0;
  *event = machine->events.back().get();
  return 0;
}
Status rt_event_destroy(Event event) { return remove(machine->events, &event_of(event)) ? 0 : 400; }
Status rt_record(Event event, Stream stream) {
  if (const Status status = machine->fault("cudaEventRecord")) return status;
  if (event_of(event).device != stream_of(stream).device)
    machine->violate("an event is recorded on another GPU's stream");
  event_of(event).captured = stream_of(stream).capture;
  Command command{.kind = Command::Kind::record};
  command.event = &event_of(event);
  command.ticket = ++event_of(event).recorded;
  issue(stream, std::move(command));
  return 0;
}
Status rt_record_flags(Event event, Stream stream, unsigned flags) {
  const bool external = (flags & cuda::kExternalEvent) != 0;
  if (external && !stream_of(stream).capture) return 401;
  const Status status = rt_record(event, stream);
  if (external) event_of(event).captured = nullptr;
  return status;
}
Status rt_begin_capture(Stream stream, int) {
  if (const Status status = machine->fault("cudaStreamBeginCapture")) return status;
  if (stream_of(stream).capture) return 900;
  machine->graphs.push_back(std::make_unique<FakeGraph>());
  FakeGraph& graph = *machine->graphs.back();
  graph.origin = &stream_of(stream);
  stream_of(stream).capture = &graph;
  graph.streams = {&stream_of(stream)};
  return 0;
}
Status rt_end_capture(Stream stream, void** handle) {
  *handle = nullptr;
  FakeGraph* const graph = stream_of(stream).capture;
  if (!graph || graph->origin != &stream_of(stream)) return 900;
  for (FakeStream* each : graph->streams) each->capture = nullptr;
  *handle = graph;
  for (FakeStream* each : graph->streams) {
    if (each == graph->origin) continue;
    // A joined stream ends with an event record that the origin stream waits for.
    const auto last = std::find_if(graph->commands.rbegin(), graph->commands.rend(),
                                   [&](const auto& entry) { return entry.first == each; });
    const bool joined = last != graph->commands.rend() && last->second.kind == Command::Kind::record &&
                        std::any_of(graph->commands.begin(), graph->commands.end(), [&](const auto& entry) {
                          return entry.first == graph->origin && entry.second.kind == Command::Kind::wait &&
                                 entry.second.event == last->second.event;
                        });
    if (joined) continue;
    machine->violate("a captured stream was not joined");
    return 904;
  }
  return machine->fault("cudaStreamEndCapture");
}
Status rt_instantiate(void** executable, void* graph, unsigned long long) {
  if (const Status status = machine->fault("cudaGraphInstantiate")) return status;
  machine->executables.push_back(std::make_unique<FakeGraph>(*static_cast<FakeGraph*>(graph)));
  *executable = machine->executables.back().get();
  return 0;
}
Status rt_launch_graph(void* executable, Stream stream) {
  if (const Status status = machine->fault("cudaGraphLaunch")) return status;
  const auto graph = std::ranges::find(machine->executables, executable, &std::unique_ptr<FakeGraph>::get);
  if (graph == machine->executables.end()) {
    machine->violate("a graph is launched that was not instantiated");
    return 1;
  }
  if (stream_of(stream).capture) machine->violate("a graph is launched into a capture");
  for (auto [on, command] : (*graph)->commands) {  // each launch records the events anew
    if (command.kind == Command::Kind::record) command.ticket = ++command.event->recorded;
    if (command.kind == Command::Kind::wait) command.ticket = command.event->recorded;
    issue(on, std::move(command));
  }
  return 0;
}
Status rt_destroy_executable(void* executable) {
  return remove(machine->executables, static_cast<FakeGraph*>(executable)) ? 0 : 1;
}
Status rt_destroy_graph(void* graph) {
  if (static_cast<FakeGraph*>(graph)->destroyed) machine->violate("a graph is destroyed twice");
  static_cast<FakeGraph*>(graph)->destroyed = true;
  static_cast<FakeGraph*>(graph)->commands.clear();
  return 0;
}
Status rt_elapsed(float* milliseconds, Event from, Event to) {
  const FakeEvent &a = event_of(from), &b = event_of(to);
  if (!a.timing || !b.timing || a.device != b.device) return 400;
  if (a.captured || b.captured) machine->violate("the time of an event that only orders a graph");
  if (a.recorded == 0 || b.recorded == 0) return 400;
  if (a.done < a.recorded || b.done < b.recorded) return 600;
  *milliseconds = static_cast<float>((b.at - a.at) * 1e-6);
  return machine->fault("cudaEventElapsedTime");
}
Status allocate(void** at, std::size_t size, int device) {
  *at = std::calloc(std::max<std::size_t>(size, 1), 1);
  machine->memory[static_cast<unsigned char*>(*at)] = {size, device};
  return 0;
}
Status rt_malloc(void** at, std::size_t size) {
  if (const Status status = machine->fault("cudaMalloc")) return status;
  std::size_t& used = machine->used[static_cast<std::size_t>(machine->current)];
  if (used + size > machine->options.memory) return cuda::kOutOfMemory;
  used += size;
  return allocate(at, size, machine->current);
}
Status rt_free(void* at) {
  const auto block = machine->memory.find(static_cast<unsigned char*>(at));
  if (block == machine->memory.end()) {
    machine->violate("memory is freed that was never given, or twice");
    return 1;
  }
  if (machine->is_pending(block->first, block->first + block->second.first))
    machine->violate("memory is freed while work on it is pending");
  if (block->second.second >= 0) machine->used[static_cast<std::size_t>(block->second.second)] -= block->second.first;
  machine->freed.emplace_back(block->first, block->second.first);
  machine->memory.erase(block);
  return 0;
}
Status rt_host_alloc(void** at, std::size_t size, unsigned) {
  if (const Status status = machine->fault("cudaHostAlloc")) return status;
  return allocate(at, size, -1);
}
Status rt_host_pointer(void** device, void* host, unsigned) { return *device = host, 0; }
Status rt_memory(std::size_t* free, std::size_t* total) {
  *total = machine->options.memory;
  *free = *total - machine->used[static_cast<std::size_t>(machine->current)];
  return 0;
}
Status push_copy(void* to, const void* from, std::size_t size, double ns, Stream stream, int kind = -1) {
  const bool within = kind == cuda::device_to_device;
  Command command{.kind = Command::Kind::work, .ns = ns};
  if (machine->options.shared_engines && (kind == cuda::host_to_device || kind == cuda::device_to_host))
    command.engine = kind;
  machine->host += machine->options.launch_ns;
  command.correlation = machine->launched();
  command.copied = size;
  command.by_sms = within && size < machine->options.copied_by_sms;
  if (command.by_sms && stream_of(stream).context)
    command.ns += machine->options.own_ns_per_byte * static_cast<double>(size) *
                  (static_cast<double>(machine->options.sms) / stream_of(stream).context->sms - 1);
  command.effect = [=] { std::memmove(to, from, size); };
  command.accesses = {reads(from, size), writes(to, size)};
  issue(stream, std::move(command));
  return 0;
}
Status rt_memset(void* at, int value, std::size_t size, Stream stream) {
  if (const Status status = machine->fault("cudaMemsetAsync")) return status;
  Command command{.kind = Command::Kind::work, .ns = 1'000};
  command.effect = [=] { std::memset(at, value, size); };
  command.accesses = {writes(at, size)};
  issue(stream, std::move(command));
  return 0;
}
Status rt_copy(void* to, const void* from, std::size_t size, int kind, Stream stream) {
  if (const Status status = machine->fault("cudaMemcpyAsync")) return status;
  int to_device = -1, from_device = -1;
  if (!machine->owner(to, size, to_device) || !machine->owner(from, size, from_device))
    machine->violate("a copy of memory that is not there, or was freed");
  const int right = from_device < 0 ? (to_device < 0 ? cuda::host_to_host : cuda::host_to_device)
                    : to_device < 0 ? cuda::device_to_host
                                    : cuda::device_to_device;
  if (kind != right || (kind == cuda::device_to_device && from_device != to_device))
    machine->violate("a copy's kind does not match its pointers");
  const FakeCudaOptions& options = machine->options;
  return push_copy(to, from, size, options.own_latency_ns + options.own_ns_per_byte * static_cast<double>(size), stream,
                   right);
}
Status rt_peer_copy(void* to, int to_said, const void* from, int from_said, std::size_t size, Stream stream) {
  if (const Status status = machine->fault("cudaMemcpyPeerAsync")) return status;
  int to_device = -1, from_device = -1;
  if (!machine->owner(to, size, to_device) || !machine->owner(from, size, from_device))
    machine->violate("a copy of memory that is not there, or was freed");
  if (to_device != to_said || from_device != from_said) machine->violate("a peer copy with a wrong GPU");
  const FakeCudaOptions& options = machine->options;
  return push_copy(to, from, size, options.latency_ns + options.ns_per_byte * static_cast<double>(size), stream);
}
Status rt_can_peer(int* can, int, int) { return *can = machine->options.peers ? 1 : 0, 0; }
Status rt_enable_peer(int, unsigned) { return machine->fault("cudaDeviceEnablePeerAccess"); }

// --- cuDNN ---
using Descriptor = std::vector<int>;
const Descriptor& descriptor(void* handle) { return *static_cast<Descriptor*>(handle); }
template <class... Numbers>
Status describe(void* handle, Numbers... numbers) {
  static_cast<Descriptor*>(handle)->insert(static_cast<Descriptor*>(handle)->end(), {numbers...});
  return 0;
}
Status dnn_create(void** handle) {
  if (const Status status = machine->fault("cudnnCreate")) return status;
  machine->dnn.push_back(std::make_unique<Stream>(nullptr));
  *handle = machine->dnn.back().get();
  return 0;
}
Status dnn_destroy(void* handle) { return remove(machine->dnn, static_cast<Stream*>(handle)) ? 0 : 1; }
Status dnn_stream(void* handle, Stream stream) { return *static_cast<Stream*>(handle) = stream, 0; }
const char* dnn_error(Status) { return "a planted fault"; }
Status dnn_describe(void** handle) {
  machine->descriptors.push_back(std::make_unique<Descriptor>());
  *handle = machine->descriptors.back().get();
  return 0;
}
Status dnn_forget(void* handle) { return remove(machine->descriptors, static_cast<Descriptor*>(handle)) ? 0 : 1; }
Status dnn_tensor(void* t, int, int type, int n, int c, int h, int w) { return describe(t, n, c, h, w, type); }
Status dnn_filter(void* f, int type, int, int k, int c, int r, int s) { return describe(f, k, c, r, s, type); }
Status dnn_convolution(void* d, int ph, int pw, int sh, int sw, int dh, int dw, int, int type) {
  if (type != cuda::kDnnFloat) machine->violate("a convolution whose sums are not floats");
  return describe(d, ph, pw, sh, sw, dh, dw);
}
Status dnn_groups(void* d, int groups) { return describe(d, groups); }
Status dnn_math(void* d, int math) {
  Descriptor& convolution = *static_cast<Descriptor*>(d);
  convolution.resize(7);
  return describe(d, math);
}
/// Algorithm 1 is fast but not deterministic, 3 turns out not to be supported, 2 needs a workspace.
Status dnn_choose(void*, void*, void*, void* convolution, void*, int, int* count, cuda::DnnAlgorithm* algorithms) {
  const int math = descriptor(convolution)[7];
  algorithms[0] = {.algorithm = 1, .status = 0, .time = 1, .memory = 0, .determinism = 0, .math = math, .reserved = {}};
  int known = 1;
  const auto add = [&](int algorithm, std::size_t memory) {
    algorithms[known++] = {.algorithm = algorithm,
                           .status = 0,
                           .time = 2,
                           .memory = memory,
                           .determinism = 1,
                           .math = math,
                           .reserved = {}};
  };
  if (machine->options.wrong_heuristics) add(3, 0);
  if (machine->options.deterministic_convolutions) add(2, 64);
  *count = known;
  return 0;
}
/// Calls f(index of x, of w, of y) for every multiply-add of the convolution.
template <class F>
void each_product(const Descriptor& x, const Descriptor& w, const Descriptor& y, const Descriptor& d, F&& f) {
  const int groups = d[6], in = x[1] / groups, out = y[1] / groups;
  for (int n = 0; n < y[0]; ++n)
    for (int k = 0; k < y[1]; ++k)
      for (int i = 0; i < y[2]; ++i)
        for (int j = 0; j < y[3]; ++j)
          for (int c = 0; c < in; ++c)
            for (int a = 0; a < w[2]; ++a)
              for (int b = 0; b < w[3]; ++b) {
                const int h = i * d[2] - d[0] + a * d[4], v = j * d[3] - d[1] + b * d[5];
                if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
                f(((n * x[1] + k / out * in + c) * x[2] + h) * x[3] + v, ((k * in + c) * w[2] + a) * w[3] + b,
                  ((n * y[1] + k) * y[2] + i) * y[3] + j);
              }
}
/// Issues a cuDNN kernel on its handle's stream.
Status dnn_work(const char* kernel, double ns, void* handle, std::function<void()> effect,
                std::vector<Access> accesses = {}) {
  int device = 0;
  for (const Access& each : accesses)
    if (!machine->owner(each.begin, static_cast<std::size_t>(each.end - each.begin), device) ||
        device != stream_of(*static_cast<Stream*>(handle)).device)
      machine->violate("cuDNN is given memory that is not there, or not of its stream's GPU");
  Command command{.kind = Command::Kind::work, .ns = ns};
  command.accesses = std::move(accesses);
  command.correlation = machine->launched();
  if (command.correlation > 0) command.ns += machine->options.tracing_ns;
  command.name = kernel;
  command.effect = std::move(effect);
  issue(*static_cast<Stream*>(handle), std::move(command));
  return 0;
}
Status convolve(const char* name, void* handle, int algorithm, const void* workspace, std::size_t workspace_bytes,
                std::function<void()> effect) {
  if (const Status status = machine->fault(name)) return status;
  if (algorithm == 3 && machine->options.wrong_heuristics) return cuda::kDnnNotSupported;
  if (algorithm != 2 || !workspace || workspace_bytes < 64) machine->violate("a convolution as cuDNN did not say");
  return dnn_work("convolve", 3'000, handle, std::move(effect));
}
/// A tensor's array. Both descriptors must have the type float or bfloat16.
HostArray typed(const Descriptor& own, const Descriptor& other, const void* at) {
  if (own[4] != other[4] || (own[4] != cuda::kDnnFloat && own[4] != cuda::kDnnShort))
    machine->violate("cuDNN is given arrays of different types");
  return array(at, own[4] == cuda::kDnnShort);
}
/// result(k) = sum of a(i) b(j) over all multiply-adds; `which` picks the indices (k, i, j) from those of x, w, y.
template <class Which>
void convolve_into(void* result, void* result_d, void* xd, void* wd, void* yd, void* cd, const void* a, void* ad,
                   const void* b, Which&& which) {
  const Descriptor& shape = descriptor(result_d);
  HostArray first = typed(descriptor(ad), shape, a), second = typed(descriptor(ad), shape, b);
  first.tf32 = second.tf32 = !first.is_short && descriptor(cd)[7] == cuda::kDnnDefaultMath;
  if (first.is_short != (descriptor(cd)[7] == cuda::kDnnTensorMath)) machine->violate("cuDNN has no such math");
  std::vector<float> sums(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0.0F);
  each_product(descriptor(xd), descriptor(wd), descriptor(yd), descriptor(cd), [&](int i, int j, int k) {
    const auto [to, one, other] = which(i, j, k);
    sums[static_cast<std::size_t>(to)] += first.get(one) * second.get(other);
  });
  const HostArray to = typed(shape, shape, result);
  for (std::size_t i = 0; i < sums.size(); ++i) to.set(static_cast<int>(i), sums[i]);
}
using Three = std::array<int, 3>;
Status dnn_forward(void* handle, const void*, void* xd, const void* x, void* wd, const void* w, void* cd, int algorithm,
                   void* workspace, std::size_t bytes, const void*, void* yd, void* y) {
  return convolve("cudnnConvolutionForward", handle, algorithm, workspace, bytes, [=] {
    convolve_into(y, yd, xd, wd, yd, cd, x, xd, w, [](int i, int j, int k) { return Three{k, i, j}; });
  });
}
Status dnn_data(void* handle, const void*, void* wd, const void* w, void* yd, const void* dy, void* cd, int algorithm,
                void* workspace, std::size_t bytes, const void*, void* xd, void* dx) {
  return convolve("cudnnConvolutionBackwardData", handle, algorithm, workspace, bytes, [=] {
    convolve_into(dx, xd, xd, wd, yd, cd, w, wd, dy, [](int i, int j, int k) { return Three{i, j, k}; });
  });
}
Status dnn_weights(void* handle, const void*, void* xd, const void* x, void* yd, const void* dy, void* cd,
                   int algorithm, void* workspace, std::size_t bytes, const void*, void* wd, void* dw) {
  return convolve("cudnnConvolutionBackwardFilter", handle, algorithm, workspace, bytes, [=] {
    convolve_into(dw, wd, xd, wd, yd, cd, x, xd, dy, [](int i, int j, int k) { return Three{j, i, k}; });
  });
}

/// Batch norms over [n, c, h, 1], computed by definition in doubles.
Status norm_command(const char* name, void* handle, std::function<void()> effect) {
  if (const Status status = machine->fault(name)) return status;
  if (!machine->options.other_dnn) return cuda::kDnnNotSupported;
  return dnn_work("batch_norm", 2'000, handle, std::move(effect));
}
template <class F>
void each_of_channel(const Descriptor& x, int c, F&& f) {
  for (int n = 0; n < x[0]; ++n)
    for (int h = 0; h < x[2] * x[3]; ++h) f((n * x[1] + c) * x[2] * x[3] + h);
}
void check_norm(const Descriptor& images, const Descriptor& vectors, int mode) {
  if (mode != cuda::kDnnBatchNormSpatial || vectors[0] != 1 || vectors[1] != images[1] || vectors[2] != 1 ||
      vectors[3] != 1 || vectors[4] != cuda::kDnnFloat)
    machine->violate("cuDNN has no such batch norm");
}
Status dnn_norm(void* handle, int mode, const void*, const void*, void* xd, const void* x, void* yd, void* y,
                void* vectors, const void* scale, const void* shift, double, void* running, void*, double epsilon,
                void* mean, void* inverse) {
  check_norm(descriptor(xd), descriptor(vectors), mode);
  if (running) machine->violate("no running statistics are wanted");
  return norm_command("cudnnBatchNormalizationForwardTraining", handle, [=, shape = descriptor(xd)] {
    const HostArray from = typed(shape, descriptor(yd), x), to = typed(shape, descriptor(yd), y);
    for (int c = 0; c < shape[1]; ++c) {
      const double count = static_cast<double>(shape[0]) * shape[2] * shape[3];
      double sum = 0, squares = 0;
      each_of_channel(shape, c, [&](int i) { sum += static_cast<double>(from.get(i)); });
      const double m = sum / count;
      each_of_channel(shape, c, [&](int i) { squares += std::pow(static_cast<double>(from.get(i)) - m, 2); });
      const double by = 1 / std::sqrt(squares / count + epsilon);
      static_cast<float*>(mean)[c] = static_cast<float>(m);
      static_cast<float*>(inverse)[c] = static_cast<float>(by);
      each_of_channel(shape, c, [&](int i) {
        to.set(i, static_cast<float>((static_cast<double>(from.get(i)) - m) * by *
                                         static_cast<double>(static_cast<const float*>(scale)[c]) +
                                     static_cast<double>(static_cast<const float*>(shift)[c])));
      });
    }
  });
}
Status dnn_norm_back(void* handle, int mode, const void*, const void*, const void*, const void*, void* xd,
                     const void* x, void* dyd, const void* dy, void* dxd, void* dx, void* vectors, const void* scale,
                     void* dscale, void* dshift, double, const void* mean, const void* inverse) {
  check_norm(descriptor(xd), descriptor(vectors), mode);
  return norm_command("cudnnBatchNormalizationBackward", handle, [=, shape = descriptor(xd)] {
    const HostArray from = typed(shape, descriptor(dyd), x), given = typed(shape, descriptor(dxd), dy),
                    to = typed(shape, descriptor(dxd), dx);
    for (int c = 0; c < shape[1]; ++c) {
      const double count = static_cast<double>(shape[0]) * shape[2] * shape[3];
      const auto m = static_cast<double>(static_cast<const float*>(mean)[c]);
      const auto by = static_cast<double>(static_cast<const float*>(inverse)[c]);
      const auto normal = [&](int i) { return (static_cast<double>(from.get(i)) - m) * by; };
      double sum = 0, product = 0;
      each_of_channel(shape, c, [&](int i) {
        sum += static_cast<double>(given.get(i));
        product += static_cast<double>(given.get(i)) * normal(i);
      });
      static_cast<float*>(dscale)[c] = static_cast<float>(product);
      static_cast<float*>(dshift)[c] = static_cast<float>(sum);
      each_of_channel(shape, c, [&](int i) {
        to.set(i, static_cast<float>(by * static_cast<double>(static_cast<const float*>(scale)[c]) *
                                     (static_cast<double>(given.get(i)) - sum / count - normal(i) * product / count)));
      });
    }
  });
}

/// The contents of a descriptor, which must exist and have been set once with `numbers` numbers.
Descriptor set_once(void* handle, std::size_t numbers) {
  const auto known = std::ranges::find(machine->descriptors, handle, &std::unique_ptr<Descriptor>::get);
  if (known != machine->descriptors.end() && (*known)->size() == numbers) return **known;
  machine->violate("cuDNN is given a descriptor of another kind, or none");
  return Descriptor(numbers, 0);
}
Descriptor tensor_of(void* handle) { return set_once(handle, 5); }
std::size_t bytes_of(const Descriptor& t) {
  return static_cast<std::size_t>(t[0] * t[1] * t[2] * t[3]) * (t[4] == cuda::kDnnShort ? 2 : sizeof(float));
}
void check_scales(const void* alpha, const void* beta) {
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
    machine->violate("cuDNN is to scale, or to add");
}

/// Calls line(length, index of element i) for each line of a softmax.
template <class F>
void each_softmax_line(const Descriptor& x, int mode, F&& line) {
  const bool whole = mode == cuda::kDnnSoftmaxInstance;
  const int length = whole ? x[1] * x[2] * x[3] : x[1], step = whole ? 1 : x[2] * x[3];
  for (int n = 0; n < x[0]; ++n)
    for (int s = 0; s < step; ++s) line(length, [=](int i) { return (n * length + i) * step + s; });
}
Status softmax(const char* name, void* handle, int algorithm, int mode, const void* alpha, const void* beta,
               std::function<void()> effect, std::vector<Access> accesses) {
  if (const Status status = machine->fault(name)) return status;
  if (!machine->options.other_dnn) return cuda::kDnnNotSupported;
  check_scales(alpha, beta);
  if ((algorithm != cuda::kDnnSoftmaxAccurate && algorithm != cuda::kDnnSoftmaxLog) ||
      (mode != cuda::kDnnSoftmaxInstance && mode != cuda::kDnnSoftmaxChannel))
    machine->violate("cuDNN has no such softmax, or an inaccurate one");
  return dnn_work("softmax", 2'000, handle, std::move(effect), std::move(accesses));
}
Status dnn_softmax(void* handle, int algorithm, int mode, const void* alpha, void* xd, const void* x, const void* beta,
                   void* yd, void* y) {
  const Descriptor shape = tensor_of(xd);
  if (shape != tensor_of(yd)) machine->violate("a softmax of one shape into another");
  const HostArray from = typed(shape, shape, x), to = typed(shape, shape, y);
  const auto effect = [=] {
    each_softmax_line(shape, mode, [&](int length, const auto& at) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int i = 0; i < length; ++i) most = std::max(most, static_cast<double>(from.get(at(i))));
      for (int i = 0; i < length; ++i) sum += std::exp(static_cast<double>(from.get(at(i))) - most);
      for (int i = 0; i < length; ++i) {
        const double log = static_cast<double>(from.get(at(i))) - most - std::log(sum);
        to.set(at(i), static_cast<float>(algorithm == cuda::kDnnSoftmaxLog ? log : std::exp(log)));
      }
    });
  };
  return softmax("cudnnSoftmaxForward", handle, algorithm, mode, alpha, beta, effect,
                 {reads(x, bytes_of(shape)), writes(y, bytes_of(shape))});
}
Status dnn_softmax_back(void* handle, int algorithm, int mode, const void* alpha, void* yd, const void* y, void* dyd,
                        const void* dy, const void* beta, void* dxd, void* dx) {
  const Descriptor shape = tensor_of(yd);
  if (shape != tensor_of(dyd) || shape != tensor_of(dxd)) machine->violate("a softmax of one shape into another");
  const HostArray out = typed(shape, shape, y), given = typed(shape, shape, dy), to = typed(shape, shape, dx);
  const auto effect = [=] {
    const bool logs = algorithm == cuda::kDnnSoftmaxLog;
    each_softmax_line(shape, mode, [&](int length, const auto& at) {
      double sum = 0;
      const auto of = [&](const HostArray& array, int i) { return static_cast<double>(array.get(at(i))); };
      for (int i = 0; i < length; ++i) sum += of(given, i) * (logs ? 1 : of(out, i));
      for (int i = 0; i < length; ++i)
        to.set(at(i), static_cast<float>(logs ? of(given, i) - std::exp(of(out, i)) * sum
                                              : of(out, i) * (of(given, i) - sum)));
    });
  };
  return softmax("cudnnSoftmaxBackward", handle, algorithm, mode, alpha, beta, effect,
                 {reads(y, bytes_of(shape)), reads(dy, bytes_of(shape)), writes(dx, bytes_of(shape))});
}

Status dnn_pooling(void* pool, int mode, int nan, int h, int w, int pad_h, int pad_w, int stride_h, int stride_w) {
  if (mode < 0 || mode > 3 || nan < 0 || nan > 1 || pad_h >= h || pad_w >= w)
    machine->violate("cuDNN has no such pool");
  return describe(pool, mode, h, w, pad_h, pad_w, stride_h, stride_w);
}
/// Whether the window fits the shapes; cuDNN answers a mismatch with "bad parameter".
bool is_pool(const Descriptor& p, const Descriptor& x, const Descriptor& y) {
  return x[0] == y[0] && x[1] == y[1] && (x[2] + 2 * p[3] - p[1]) / p[5] + 1 == y[2] &&
         (x[3] + 2 * p[4] - p[2]) / p[6] + 1 == y[3];
}
/// Calls f(element of y, elements of x in its window) for all windows.
template <class F>
void each_pool_window(const Descriptor& p, const Descriptor& x, const Descriptor& y, F&& f) {
  std::vector<int> inside;
  for (int plane = 0, o = 0; plane < x[0] * x[1]; ++plane)
    for (int i = 0; i < y[2]; ++i)
      for (int j = 0; j < y[3]; ++j, ++o) {
        inside.clear();
        for (int h = i * p[5] - p[3]; h < i * p[5] - p[3] + p[1]; ++h)
          for (int w = j * p[6] - p[4]; w < j * p[6] - p[4] + p[2]; ++w)
            if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) inside.push_back((plane * x[2] + h) * x[3] + w);
        f(o, inside);
      }
}
/// The divisor of an average over a window with `inside` elements inside the array.
double divisor(const Descriptor& p, std::size_t inside) {
  return p[0] == cuda::kDnnAveragePadded ? p[1] * p[2] : static_cast<double>(inside);
}
constexpr Status kBadParameter = 2000;
Status dnn_pool(void* handle, void* pool, const void* alpha, void* xd, const void* x, const void* beta, void* yd,
                void* y) {
  if (const Status status = machine->fault("cudnnPoolingForward")) return status;
  if (!machine->options.other_dnn) return cuda::kDnnNotSupported;
  const Descriptor p = set_once(pool, 7), in = tensor_of(xd), out = tensor_of(yd);
  if (!is_pool(p, in, out)) return kBadParameter;
  check_scales(alpha, beta);
  const HostArray from = typed(in, out, x), to = typed(out, in, y);
  const auto effect = [=] {
    each_pool_window(p, in, out, [&](int o, const std::vector<int>& inside) {
      float most = -std::numeric_limits<float>::max();
      double sum = 0;
      for (const int i : inside) most = std::max(most, from.get(i)), sum += static_cast<double>(from.get(i));
      to.set(o, p[0] == cuda::kDnnMaxPool ? most : static_cast<float>(sum / divisor(p, inside.size())));
    });
  };
  return dnn_work("pool", 2'000, handle, effect, {reads(x, bytes_of(in)), writes(y, bytes_of(out))});
}
/// Gradient of average pools: x and y must be given but are not read.
Status dnn_pool_back(void* handle, void* pool, const void* alpha, void* yd, const void* y, void* dyd, const void* dy,
                     void* xd, const void* x, const void* beta, void* dxd, void* dx) {
  if (const Status status = machine->fault("cudnnPoolingBackward")) return status;
  if (!machine->options.other_dnn) return cuda::kDnnNotSupported;
  const Descriptor p = set_once(pool, 7), in = tensor_of(dxd), out = tensor_of(dyd);
  if (!is_pool(p, in, out) || in != tensor_of(xd) || out != tensor_of(yd) || !x || !y) return kBadParameter;
  if (p[0] == cuda::kDnnMaxPool) machine->violate("cuDNN's gradient of such a max pool differs from run to run");
  check_scales(alpha, beta);
  const HostArray given = typed(out, in, dy), to = typed(in, out, dx);
  const auto effect = [=] {
    std::vector<double> sums(static_cast<std::size_t>(in[0] * in[1] * in[2] * in[3]), 0.0);
    each_pool_window(p, in, out, [&](int o, const std::vector<int>& inside) {
      for (const int i : inside)
        sums[static_cast<std::size_t>(i)] += static_cast<double>(given.get(o)) / divisor(p, inside.size());
    });
    for (std::size_t i = 0; i < sums.size(); ++i) to.set(static_cast<int>(i), static_cast<float>(sums[i]));
  };
  return dnn_work("pool", 2'000, handle, effect, {reads(dy, bytes_of(out)), writes(dx, bytes_of(in))});
}

// --- other libraries: just enough to be loaded ---
std::size_t dnn_version() { return 91900; }
Status cupti_version(std::uint32_t* version) { return *version = 130001, 0; }
Status cupti_text(Status, const char** text) { return *text = "a planted fault", 0; }
Status cupti_enable(int kind) {
  if (const Status status = machine->fault("cuptiActivityEnable")) return status;
  if (kind == cuda::kKernelRecord) machine->violate("KIND_KERNEL serializes all kernels");
  return machine->traced.insert(kind), 0;
}
Status cupti_disable(int kind) { return machine->traced.erase(kind), 0; }
Status cupti_register(cuda::Cupti::Request request, cuda::Cupti::Complete complete) {
  machine->request = request;
  machine->complete = complete;
  return machine->fault("cuptiActivityRegisterCallbacks");
}
Status cupti_push(int, std::uint64_t id) { return machine->pushed.push_back(id), 0; }
Status cupti_pop(int, std::uint64_t* last) {
  if (machine->pushed.empty()) return 7;
  *last = machine->pushed.back();
  return machine->pushed.pop_back(), 0;
}
Status cupti_dropped(void*, std::uint32_t, std::size_t* dropped) {
  return *dropped = std::exchange(machine->options.dropped_records, 0), 0;
}
Status cupti_next(std::uint8_t* buffer, std::size_t valid, void** record) {
  if (machine->next_record >= valid) return 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED
  *record = buffer + machine->next_record;
  int kind = 0;
  std::memcpy(&kind, *record, sizeof kind);
  machine->next_record += kind == cuda::kConcurrentKernelRecord ? sizeof(cuda::KernelRecord)
                          : kind == cuda::kMemcpyRecord         ? sizeof(cuda::MemcpyRecord)
                                                                : sizeof(cuda::ExternalCorrelationRecord);
  return 0;
}
Status cupti_flush(std::uint32_t) {
  if (const Status status = machine->fault("cuptiActivityFlushAll")) return status;
  while (!machine->records.empty()) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, used = 0, count = 0;
    machine->request(&buffer, &size, &most);
    for (const auto& record : machine->records) {
      if (used + record.size() > size) break;
      std::memcpy(buffer + used, record.data(), record.size());
      used += record.size();
      ++count;
    }
    machine->records.erase(machine->records.begin(), machine->records.begin() + static_cast<std::ptrdiff_t>(count));
    machine->next_record = 0;
    machine->complete(nullptr, 0, buffer, size, used);
  }
  return 0;
}
Status nvml_init() { return machine->options.clocks.empty() ? 1 : 0; }
Status nvml_handle(unsigned gpu, void** device) {
  return *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(gpu + 1)), 0;
}
Status nvml_clock(void*, int, unsigned* megahertz) {
  const std::vector<unsigned>& clocks = machine->options.clocks;
  *megahertz = clocks[std::min(machine->clocks_told++, clocks.size() - 1)];
  return 0;
}
Status nvml_reasons(void*, unsigned long long* reasons) { return *reasons = 0, 0; }
Status nvml_power(void*, unsigned* milliwatts) { return *milliwatts = 300'000, 0; }
Status nvml_driver(char* text, unsigned length) { return std::snprintf(text, length, "580.0"), 0; }
Status nvrtc_version(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
Status does_nothing() { return 0; }

template <class Function>
void* pointer(Function function) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& functions() {
  static const std::map<std::string, void*> all{
      {"cuInit", pointer(cu_init)},
      {"cuDriverGetVersion", pointer(cu_version)},
      {"cuGetErrorString", pointer(cu_error)},
      {"cuDeviceGet", pointer(cu_device)},
      {"cuDeviceGetName", pointer(cu_name)},
      {"cuDeviceGetDevResource", pointer(cu_resource)},
      {"cuDevSmResourceSplitByCount", pointer(cu_split)},
      {"cuDevResourceGenerateDesc", pointer(cu_description)},
      {"cuGreenCtxCreate", pointer(cu_green)},
      {"cuGreenCtxDestroy", pointer(cu_green_destroy)},
      {"cuGreenCtxStreamCreate", pointer(cu_green_stream)},
      {"cuLibraryLoadData", pointer(cu_library)},
      {"cuLibraryUnload", pointer(cu_library_unload)},
      {"cuLibraryGetKernel", pointer(cu_kernel)},
      {"cuLaunchKernel", pointer(cu_launch)},
      {"cuStreamWaitValue32_v2", pointer(cu_wait_value)},
      {"cuStreamWriteValue32_v2", pointer(cu_write_value)},
      {"cudaRuntimeGetVersion", pointer(rt_version)},
      {"cudaGetDeviceCount", pointer(rt_count)},
      {"cudaGetErrorString", pointer(rt_error)},
      {"cudaSetDevice", pointer(rt_set_device)},
      {"cudaDeviceGetAttribute", pointer(rt_attribute)},
      {"cudaDeviceSynchronize", pointer(wait_for_all)},
      {"cudaStreamCreateWithFlags", pointer(rt_stream)},
      {"cudaStreamDestroy", pointer(rt_stream_destroy)},
      {"cudaStreamSynchronize", pointer(rt_stream_synchronize)},
      {"cudaStreamWaitEvent", pointer(rt_stream_wait)},
      {"cudaEventCreateWithFlags", pointer(rt_event)},
      {"cudaEventDestroy", pointer(rt_event_destroy)},
      {"cudaEventRecord", pointer(rt_record)},
      {"cudaEventElapsedTime", pointer(rt_elapsed)},
      {"cudaEventRecordWithFlags", pointer(rt_record_flags)},
      {"cudaStreamBeginCapture", pointer(rt_begin_capture)},
      {"cudaStreamEndCapture", pointer(rt_end_capture)},
      {"cudaGraphInstantiate", pointer(rt_instantiate)},
      {"cudaGraphLaunch", pointer(rt_launch_graph)},
      {"cudaGraphExecDestroy", pointer(rt_destroy_executable)},
      {"cudaGraphDestroy", pointer(rt_destroy_graph)},
      {"cudaMalloc", pointer(rt_malloc)},
      {"cudaFree", pointer(rt_free)},
      {"cudaHostAlloc", pointer(rt_host_alloc)},
      {"cudaFreeHost", pointer(rt_free)},
      {"cudaHostGetDevicePointer", pointer(rt_host_pointer)},
      {"cudaMemGetInfo", pointer(rt_memory)},
      {"cudaMemsetAsync", pointer(rt_memset)},
      {"cudaMemcpyAsync", pointer(rt_copy)},
      {"cudaMemcpyPeerAsync", pointer(rt_peer_copy)},
      {"cudaDeviceCanAccessPeer", pointer(rt_can_peer)},
      {"cudaDeviceEnablePeerAccess", pointer(rt_enable_peer)},
      {"cublasCreate_v2", pointer(blas_create)},
      {"cublasDestroy_v2", pointer(blas_destroy)},
      {"cublasSetStream_v2", pointer(blas_stream)},
      {"cublasSetWorkspace_v2", pointer(blas_workspace)},
      {"cublasSetSmCountTarget", pointer(blas_sms)},
      {"cublasGemmEx", pointer(blas_gemm_ex)},
      {"cublasGemmStridedBatchedEx", pointer(blas_gemm_batched)},
      {"cublasSgemm_v2", pointer(blas_sgemm)},
      {"cudnnGetVersion", pointer(dnn_version)},
      {"cudnnCreate", pointer(dnn_create)},
      {"cudnnDestroy", pointer(dnn_destroy)},
      {"cudnnSetStream", pointer(dnn_stream)},
      {"cudnnGetErrorString", pointer(dnn_error)},
      {"cudnnCreateTensorDescriptor", pointer(dnn_describe)},
      {"cudnnCreateFilterDescriptor", pointer(dnn_describe)},
      {"cudnnCreateConvolutionDescriptor", pointer(dnn_describe)},
      {"cudnnDestroyTensorDescriptor", pointer(dnn_forget)},
      {"cudnnDestroyFilterDescriptor", pointer(dnn_forget)},
      {"cudnnDestroyConvolutionDescriptor", pointer(dnn_forget)},
      {"cudnnSetTensor4dDescriptor", pointer(dnn_tensor)},
      {"cudnnSetFilter4dDescriptor", pointer(dnn_filter)},
      {"cudnnSetConvolution2dDescriptor", pointer(dnn_convolution)},
      {"cudnnSetConvolutionGroupCount", pointer(dnn_groups)},
      {"cudnnSetConvolutionMathType", pointer(dnn_math)},
      {"cudnnGetConvolutionForwardAlgorithm_v7", pointer(dnn_choose)},
      {"cudnnGetConvolutionBackwardDataAlgorithm_v7", pointer(dnn_choose)},
      {"cudnnGetConvolutionBackwardFilterAlgorithm_v7", pointer(dnn_choose)},
      {"cudnnConvolutionForward", pointer(dnn_forward)},
      {"cudnnConvolutionBackwardData", pointer(dnn_data)},
      {"cudnnConvolutionBackwardFilter", pointer(dnn_weights)},
      {"cudnnBatchNormalizationForwardTraining", pointer(dnn_norm)},
      {"cudnnBatchNormalizationBackward", pointer(dnn_norm_back)},
      {"cudnnSoftmaxForward", pointer(dnn_softmax)},
      {"cudnnSoftmaxBackward", pointer(dnn_softmax_back)},
      {"cudnnCreatePoolingDescriptor", pointer(dnn_describe)},
      {"cudnnDestroyPoolingDescriptor", pointer(dnn_forget)},
      {"cudnnSetPooling2dDescriptor", pointer(dnn_pooling)},
      {"cudnnPoolingForward", pointer(dnn_pool)},
      {"cudnnPoolingBackward", pointer(dnn_pool_back)},
      {"cuptiGetVersion", pointer(cupti_version)},
      {"cuptiGetResultString", pointer(cupti_text)},
      {"cuptiActivityEnable", pointer(cupti_enable)},
      {"cuptiActivityDisable", pointer(cupti_disable)},
      {"cuptiActivityRegisterCallbacks", pointer(cupti_register)},
      {"cuptiActivityGetNextRecord", pointer(cupti_next)},
      {"cuptiActivityGetNumDroppedRecords", pointer(cupti_dropped)},
      {"cuptiActivityFlushAll", pointer(cupti_flush)},
      {"cuptiActivityPushExternalCorrelationId", pointer(cupti_push)},
      {"cuptiActivityPopExternalCorrelationId", pointer(cupti_pop)},
      {"nvrtcVersion", pointer(nvrtc_version)},
      {"nvmlInit_v2", pointer(nvml_init)},
      {"nvmlDeviceGetHandleByIndex_v2", pointer(nvml_handle)},
      {"nvmlDeviceGetClockInfo", pointer(nvml_clock)},
      {"nvmlDeviceGetPowerUsage", pointer(nvml_power)},
      {"nvmlDeviceGetCurrentClocksEventReasons", pointer(nvml_reasons)},
      {"nvmlSystemGetDriverVersion", pointer(nvml_driver)},
  };
  return all;
}

}  // namespace

FakeCuda::FakeCuda(FakeCudaOptions options) {
  machine = std::make_unique<Machine>();
  machine->options = std::move(options);
  machine->used.assign(static_cast<std::size_t>(std::max(machine->options.devices, 1)), 0);
}

FakeCuda::~FakeCuda() {
  for (const auto& [at, block] : machine->memory) std::free(const_cast<unsigned char*>(at));
  for (const auto& [at, size] : machine->freed) std::free(const_cast<unsigned char*>(at));
  machine.reset();
}

std::vector<std::string> FakeCuda::paths(const std::vector<std::string>& files) { return {"fake/" + files.front()}; }

void* FakeCuda::open(const std::string& path) {
  const std::string& missing = machine->options.lacks_library;
  return !missing.empty() && path.find(missing) != std::string::npos ? nullptr : this;
}

void* FakeCuda::symbol(void*, const char* name) {
  if (machine->options.lacks_symbol == name) return nullptr;
  const auto known = functions().find(name);
  return known == functions().end() || machine->options.ignored == name ? pointer(does_nothing) : known->second;
}

void FakeCuda::kernel(Stream stream, double ns, std::vector<Bytes> reads_of, std::vector<Bytes> writes_of,
                      void (*effect)(const std::vector<Bytes>&, const std::vector<Bytes>&)) {
  Command command{.kind = Command::Kind::work, .ns = ns, .name = "kernel"};
  for (const Bytes& bytes : reads_of) command.accesses.push_back(reads(bytes.at, bytes.size));
  for (const Bytes& bytes : writes_of) command.accesses.push_back(writes(bytes.at, bytes.size));
  if (effect) command.effect = [=] { effect(reads_of, writes_of); };
  issue(stream, std::move(command));
}

const std::vector<std::string>& FakeCuda::violations() const { return machine->violations; }

std::size_t FakeCuda::alive() const {
  const auto graphs = std::count_if(machine->graphs.begin(), machine->graphs.end(),
                                    [](const auto& graph) { return !graph->destroyed; });
  return machine->streams.size() + machine->events.size() + machine->memory.size() + machine->contexts.size() +
         machine->kernel_libraries + machine->blas.size() + machine->dnn.size() + machine->descriptors.size() +
         machine->executables.size() + machine->traced.size() + static_cast<std::size_t>(graphs);
}

std::size_t FakeCuda::used() const {
  std::size_t bytes = 0;
  for (const std::size_t each : machine->used) bytes += each;
  return bytes;
}

int FakeCuda::calls(const std::string& function) const {
  const auto known = machine->calls.find(function);
  return known == machine->calls.end() ? 0 : known->second;
}

}  // namespace trainyard::test
