#include "profiler/cuda/measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "profiler/cuda/kernels.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cuda {
namespace {

void check(const Tables& tables, Status status, const char* call) {
  if (status != 0) throw CudaError{call, status, tables.runtime.cudaGetErrorString(status)};
}

void check_driver(const Tables& tables, Status status, const char* call) {
  if (status == 0) return;
  const char* text = nullptr;
  tables.driver.cuGetErrorString(status, &text);
  throw CudaError{call, status, text ? text : "unknown error"};
}

/// Memory at one end; given back at the end of its life.
class EndMemory {
 public:
  EndMemory(const Tables& tables, int gpu, bool pinned, std::size_t size) : tables_(tables), gpu_(gpu) {
    if (gpu == kHost && !pinned) {
      pageable_.resize(size);
      at_ = pageable_.data();
    } else if (gpu == kHost) {
      check(tables, tables.runtime.cudaHostAlloc(&at_, size, 0), "cudaHostAlloc");
    } else {
      check(tables, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");
      check(tables, tables.runtime.cudaMalloc(&at_, size), "cudaMalloc");
    }
  }
  ~EndMemory() {
    if (!pageable_.empty()) return;
    if (gpu_ == kHost)
      tables_.runtime.cudaFreeHost(at_);
    else
      tables_.runtime.cudaFree(at_);
  }
  EndMemory(EndMemory&&) = delete;
  void* at() const { return at_; }

 private:
  const Tables& tables_;
  int gpu_;
  void* at_ = nullptr;
  std::vector<unsigned char> pageable_;
};

/// A stream and two events on one GPU.
class Timer {
 public:
  Timer(const Tables& tables, int gpu) : tables_(tables) {
    check(tables, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");
    check(tables, tables.runtime.cudaStreamCreateWithFlags(&stream, kNonBlocking), "cudaStreamCreateWithFlags");
    check(tables, tables.runtime.cudaEventCreateWithFlags(&begin, 0), "cudaEventCreateWithFlags");
    check(tables, tables.runtime.cudaEventCreateWithFlags(&end, 0), "cudaEventCreateWithFlags");
  }
  ~Timer() {
    tables_.runtime.cudaStreamSynchronize(stream);
    if (begin) tables_.runtime.cudaEventDestroy(begin);
    if (end) tables_.runtime.cudaEventDestroy(end);
    tables_.runtime.cudaStreamDestroy(stream);
  }
  Timer(Timer&&) = delete;

  /// Nanoseconds of the work that `issue` puts on the stream.
  template <class Issue>
  double time(const Issue& issue) {
    check(tables_, tables_.runtime.cudaEventRecord(begin, stream), "cudaEventRecord");
    issue();
    check(tables_, tables_.runtime.cudaEventRecord(end, stream), "cudaEventRecord");
    check(tables_, tables_.runtime.cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(tables_, tables_.runtime.cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e6;
  }

  Stream stream = nullptr;

 private:
  const Tables& tables_;
  Event begin = nullptr, end = nullptr;
};

std::size_t free_bytes(const Tables& tables, int gpu) {
  std::size_t free = 0, total = 0;
  check(tables, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");
  check(tables, tables.runtime.cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// One copy, whichever ends it has.
void copy(const Tables& tables, void* to, int to_gpu, const void* from, int from_gpu, std::size_t size, Stream stream) {
  if (from_gpu != kHost && to_gpu != kHost && from_gpu != to_gpu)
    return check(tables, tables.runtime.cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, size, stream),
                 "cudaMemcpyPeerAsync");
  const int kind = from_gpu == kHost ? host_to_device : to_gpu == kHost ? device_to_host : device_to_device;
  check(tables, tables.runtime.cudaMemcpyAsync(to, from, size, kind, stream), "cudaMemcpyAsync");
}

}  // namespace

std::string end_name(int gpu) { return gpu == kHost ? "host" : "gpu" + std::to_string(gpu); }

LinkMeasurement link_ladder(const Tables& tables, int from, int to, const LadderOptions& options) {
  const int home = from == kHost ? to : from;
  std::size_t room = free_bytes(tables, home) / 4;
  if (to != kHost) room = std::min(room, free_bytes(tables, to) / 4);
  std::vector<Bytes> sizes = options.sizes;
  if (sizes.empty())
    for (std::int64_t bytes = 256; bytes <= std::int64_t{1} << 30; bytes *= 4) sizes.push_back(Bytes{bytes});
  std::erase_if(sizes, [&](Bytes bytes) { return static_cast<std::size_t>(bytes.count) > room; });
  if (sizes.empty()) throw MissingError("there is no room on " + end_name(home) + " for a copy", "end what runs there");
  const auto largest = static_cast<std::size_t>(std::ranges::max(sizes).count);

  const EndMemory source{tables, from, options.pinned, largest}, target{tables, to, options.pinned, largest};
  std::vector<unsigned char> pattern(largest), arrived(largest);
  for (std::size_t i = 0; i < largest; ++i) pattern[i] = static_cast<unsigned char>(i * 131 + i / 251);
  Timer timer{tables, home};
  LinkMeasurement link{.from = end_name(from),
                       .to = end_name(to),
                       .path = from == kHost || to == kHost ? "pcie"
                               : from == to                 ? "d2d"
                                                            : "peer",
                       .engine = "ce",
                       .pinned = options.pinned};
  if (from == kHost)
    std::memcpy(source.at(), pattern.data(), largest);
  else
    timer.time([&] { copy(tables, source.at(), from, pattern.data(), kHost, largest, timer.stream); });
  for (const Bytes bytes : sizes) {
    const auto size = static_cast<std::size_t>(bytes.count);
    SizeMeasurement measured{bytes, {}};
    for (int sample = -options.warm; sample < options.samples; ++sample) {
      const double ns = timer.time([&] {
        for (int i = 0; i < options.together; ++i) copy(tables, target.at(), to, source.at(), from, size, timer.stream);
      });
      if (sample >= 0)
        measured.samples.kept.push_back(
            Nanoseconds{static_cast<std::int64_t>(std::floor(ns / options.together + 0.5))});
    }
    link.sizes.push_back(std::move(measured));
  }
  if (to == kHost)
    std::memcpy(arrived.data(), target.at(), largest);
  else
    timer.time([&] { copy(tables, arrived.data(), kHost, target.at(), to, largest, timer.stream); });
  if (arrived != pattern)
    throw std::runtime_error("what arrived from " + end_name(from) + " at " + end_name(to) + " is not what left");
  return link;
}

DelayKernels::DelayKernels(const Tables& tables, int gpu) : tables_(tables) {
  if (!tables.nvrtc.nvrtcCreateProgram) throw MissingError("NVRTC is not there", "install the CUDA 13 toolkit");
  check(tables, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");
  int major = 0, minor = 0;
  check(tables, tables.runtime.cudaDeviceGetAttribute(&major, capability_major, gpu), "cudaDeviceGetAttribute");
  check(tables, tables.runtime.cudaDeviceGetAttribute(&minor, capability_minor, gpu), "cudaDeviceGetAttribute");
  const std::string code = compile_kernels(tables.nvrtc, "sm_" + std::to_string(major) + std::to_string(minor));
  void* module = nullptr;
  check_driver(tables, tables.driver.cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
  check_driver(tables, tables.driver.cuModuleGetFunction(&function_, module, "delay_ns"), "cuModuleGetFunction");
}

void DelayKernels::launch(double ns, Stream stream) const {
  unsigned long long whole = ns > 0 ? static_cast<unsigned long long>(ns) : 0;
  void* arguments[] = {&whole};
  check_driver(tables_, tables_.driver.cuLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
               "cuLaunchKernel");
}

Details gpu_state(const Tables& tables, int gpu) {
  Details state;
  const Nvml& nvml = tables.nvml;
  if (!nvml.nvmlInit_v2 || nvml.nvmlInit_v2() != 0) return state;
  void* device = nullptr;
  if (nvml.nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(gpu), &device) == 0) {
    unsigned value = 0;
    for (const auto& [name, type] : {std::pair{"sm_clock_mhz", 1}, std::pair{"memory_clock_mhz", 2}})
      if (nvml.nvmlDeviceGetClockInfo(device, type, &value) == 0) state[name] = std::to_string(value);
    if (nvml.nvmlDeviceGetPowerUsage(device, &value) == 0) state["power_mw"] = std::to_string(value);
    unsigned long long reasons = 0;
    if (nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons) == 0)
      state["throttle_reasons"] = std::to_string(reasons);
  }
  std::array<char, 96> driver{};
  if (nvml.nvmlSystemGetDriverVersion(driver.data(), static_cast<unsigned>(driver.size())) == 0)
    state["driver"] = driver.data();
  nvml.nvmlShutdown();
  return state;
}

}  // namespace trainyard::cuda
