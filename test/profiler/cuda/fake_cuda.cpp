#include "profiler/cuda/fake_cuda.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "profiler/cuda/host_kernels.hpp"

namespace trainyard::test {
namespace {

using cuda::Event;
using cuda::Status;
using cuda::Stream;

struct FakeEvent {
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
  enum class Kind { work, record, wait, gate } kind;
  double ns = 0;
  std::function<void()> effect;
  std::vector<Access> accesses;
  FakeEvent* event = nullptr;
  std::uint64_t ticket = 0;
  const std::uint32_t* word = nullptr;
  std::uint32_t value = 0;
  double issued = 0;  // when, on the host
};

struct FakeStream {
  int device = 0;
  std::deque<Command> queue;
  double now = 0;
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
  std::map<const unsigned char*, std::pair<std::size_t, int>> memory;  // begin -> size, GPU (-1: host)
  std::vector<std::pair<const unsigned char*, std::size_t>> freed;     // given back to the system at the end alone
  std::vector<std::size_t> used;
  std::set<std::string> kernel_names;         // that were looked up
  std::vector<std::unique_ptr<Stream>> blas;  // handles: the stream of each
  std::size_t contexts = 0;
  std::map<std::string, int> calls;
  std::vector<std::string> violations;
  std::vector<Done> done;
  double host = 0;  // the host's time: that of the latest stream it waited for

  /// The planted fault, where it is this call's turn.
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

  /// The GPU that the bytes lie on, -1 for the host's own memory; false where they are freed, or reach beyond a block.
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
        break;
      case Command::Kind::wait:
        if (command.event->done < command.ticket) return false;
        stream.now = std::max(stream.now, command.event->at);
        break;
      case Command::Kind::gate:
        if (static_cast<std::int32_t>(__atomic_load_n(command.word, __ATOMIC_SEQ_CST) - command.value) < 0)
          return false;
        stream.now = std::max(stream.now, gate_time(command.word, command.value));
        break;
      case Command::Kind::work: {
        const double start = stream.now;
        stream.now += command.ns;
        check_memory(command.accesses);
        check_races(start, stream.now, command.accesses);
        if (command.effect) command.effect();
        done.push_back({start, stream.now, std::move(command.accesses)});
        break;
      }
    }
    stream.queue.pop_front();
    return true;
  }

  /// All streams pass one gate at one time: the latest of any when the first of them does.
  double gate_time(const std::uint32_t* word, std::uint32_t value) {
    const auto known = gates.find({word, value});
    if (known != gates.end()) return known->second;
    double latest = 0;
    for (const auto& stream : streams) latest = std::max(latest, stream->now);
    done.clear();  // what was before the gate cannot race with what comes after
    return gates[{word, value}] = latest;
  }
  std::map<std::pair<const std::uint32_t*, std::uint32_t>, double> gates;

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

// --- the driver ---
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
Status cu_green(void** context, void*, int device, unsigned flags) {
  if (flags != cuda::kGreenDefaultStream) machine->violate("a green context without its required flag");
  if (const Status status = machine->fault("cuGreenCtxCreate")) return status;
  ++machine->contexts;
  *context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(device + 1));
  return 0;
}
Status cu_green_destroy(void*) { return --machine->contexts, 0; }

Status new_stream(Stream* stream, int device) {
  machine->streams.push_back(std::make_unique<FakeStream>());
  machine->streams.back()->device = device;
  *stream = machine->streams.back().get();
  return 0;
}
Status cu_green_stream(Stream* stream, void* context, unsigned, int) {
  if (const Status status = machine->fault("cuGreenCtxStreamCreate")) return status;
  return new_stream(stream, static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1);
}
Status cu_module(void** module, const void*) { return *module = machine.get(), machine->fault("cuModuleLoadData"); }
/// A function's handle is its name.
Status cu_function(void** function, void*, const char* name) {
  *function = const_cast<std::string*>(&*machine->kernel_names.insert(name).first);
  return machine->fault("cuModuleGetFunction");
}
Status cu_launch(void* function, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 Stream stream, void** arguments, void**) {
  if (const Status status = machine->fault("cuLaunchKernel")) return status;
  const std::string& name = *static_cast<const std::string*>(function);
  Command command{.kind = Command::Kind::work};
  command.ns = name == "delay_ns" ? static_cast<double>(*static_cast<unsigned long long*>(arguments[0])) : 1'000;
  command.effect = host_kernel(name, blocks, arguments);
  if (!command.effect) machine->violate("a kernel that is not there: " + name);
  issue(stream, std::move(command));
  return 0;
}

// --- cuBLAS ---
Status blas_create(void** handle) {
  if (const Status status = machine->fault("cublasCreate_v2")) return status;
  machine->blas.push_back(std::make_unique<Stream>(nullptr));
  *handle = machine->blas.back().get();
  return 0;
}
Status blas_destroy(void* handle) { return remove(machine->blas, static_cast<Stream*>(handle)) ? 0 : 1; }
Status blas_stream(void* handle, Stream stream) {
  *static_cast<Stream*>(handle) = stream;
  return machine->fault("cublasSetStream_v2");
}
Status blas_sgemm(void* handle, int turn_a, int turn_b, int m, int n, int k, const float* alpha, const float* a,
                  int lda, const float* b, int ldb, const float* beta, float* c, int ldc) {
  if (const Status status = machine->fault("cublasSgemm_v2")) return status;
  const float by = *alpha, keep = *beta;
  Command command{.kind = Command::Kind::work, .ns = 2'000};
  command.effect = [=] { host_sgemm(turn_a != 0, turn_b != 0, m, n, k, by, a, lda, b, ldb, keep, c, ldc); };
  issue(*static_cast<Stream*>(handle), std::move(command));
  return 0;
}
Status cu_wait_value(Stream stream, cuda::DevicePointer address, std::uint32_t value, unsigned) {
  if (const Status status = machine->fault("cuStreamWaitValue32_v2")) return status;
  Command command{.kind = Command::Kind::gate};
  command.word = reinterpret_cast<const std::uint32_t*>(address);
  command.value = value;
  issue(stream, std::move(command));
  return 0;
}

// --- the runtime ---
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
  return machine->fault("cudaSetDevice");
}
Status rt_attribute(int* value, int attribute, int) {
  *value = attribute == cuda::sm_count ? static_cast<int>(machine->options.sms) : 3;
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
    for (const auto& each : machine->streams) each->queue.clear();  // after such an error the GPU does nothing more
    return status;
  }
  machine->run();
  if (!stream_of(stream).queue.empty()) machine->violate("the host waits for a stream that waits for ever");
  machine->host = std::max(machine->host, stream_of(stream).now);
  return 0;
}
Status rt_stream_wait(Stream stream, Event event, unsigned) {
  if (const Status status = machine->fault("cudaStreamWaitEvent")) return status;
  if (event_of(event).recorded == 0) machine->violate("a wait for an event that was never recorded: it does nothing");
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
  Command command{.kind = Command::Kind::record};
  command.event = &event_of(event);
  command.ticket = ++event_of(event).recorded;
  issue(stream, std::move(command));
  return 0;
}
Status rt_elapsed(float* milliseconds, Event from, Event to) {
  const FakeEvent &a = event_of(from), &b = event_of(to);
  if (!a.timing || !b.timing || a.device != b.device) return 400;
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
Status push_copy(void* to, const void* from, std::size_t size, double ns, Stream stream) {
  Command command{.kind = Command::Kind::work, .ns = ns};
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
  const int right = from_device < 0 ? cuda::host_to_device
                    : to_device < 0 ? cuda::device_to_host
                                    : cuda::device_to_device;
  if (kind != right || (kind == cuda::device_to_device && from_device != to_device))
    machine->violate("a copy's kind does not match its pointers");
  const FakeCudaOptions& options = machine->options;
  return push_copy(to, from, size, options.own_latency_ns + options.own_ns_per_byte * static_cast<double>(size),
                   stream);
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

// --- the others: enough to be loaded ---
std::size_t dnn_version() { return 91900; }
Status cupti_version(std::uint32_t* version) { return *version = 130001, 0; }
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
      {"cuModuleLoadData", pointer(cu_module)},
      {"cuModuleGetFunction", pointer(cu_function)},
      {"cuLaunchKernel", pointer(cu_launch)},
      {"cuStreamWaitValue32_v2", pointer(cu_wait_value)},
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
      {"cublasSgemm_v2", pointer(blas_sgemm)},
      {"cudnnGetVersion", pointer(dnn_version)},
      {"cuptiGetVersion", pointer(cupti_version)},
      {"nvrtcVersion", pointer(nvrtc_version)},
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

void* FakeCuda::open(const std::vector<std::string>& files, std::string& path) {
  const std::string& missing = machine->options.lacks_library;
  if (!missing.empty() && files.front().find(missing) != std::string::npos) return nullptr;
  path = "fake/" + files.front();
  return this;
}

void* FakeCuda::symbol(void*, const char* name) {
  if (machine->options.lacks_symbol == name) return nullptr;
  const auto known = functions().find(name);
  return known == functions().end() ? pointer(does_nothing) : known->second;
}

void FakeCuda::kernel(Stream stream, double ns, std::vector<Bytes> reads_of, std::vector<Bytes> writes_of,
                      void (*effect)(const std::vector<Bytes>&, const std::vector<Bytes>&)) {
  Command command{.kind = Command::Kind::work, .ns = ns};
  for (const Bytes& bytes : reads_of) command.accesses.push_back(reads(bytes.at, bytes.size));
  for (const Bytes& bytes : writes_of) command.accesses.push_back(writes(bytes.at, bytes.size));
  if (effect) command.effect = [=] { effect(reads_of, writes_of); };
  issue(stream, std::move(command));
}

const std::vector<std::string>& FakeCuda::violations() const { return machine->violations; }

std::size_t FakeCuda::alive() const {
  return machine->streams.size() + machine->events.size() + machine->memory.size() + machine->contexts +
         machine->blas.size();
}

int FakeCuda::calls(const std::string& function) const {
  const auto known = machine->calls.find(function);
  return known == machine->calls.end() ? 0 : known->second;
}

}  // namespace trainyard::test
