#include "profiler/run/cuda/delay_kernels.hpp"

#include <cmath>
#include <cstdint>

#include "profiler/kernels/cuda/kernels.hpp"

namespace trainyard::cuda {

DelayKernels::DelayKernels(const Tables& tables, int gpu) : tables_(tables), kernels_(load_kernels(tables, gpu)) {
  const auto get = [&](void*& kernel, const char* name) {
    check(tables.driver, tables.driver.cuLibraryGetKernel(&kernel, kernels_.get(), name), "cuLibraryGetKernel");
  };
  void* rate = nullptr;
  get(delay_, "delay_ns");
  get(cycles_, "delay_cycles");
  get(rate, "timer_rate");
  get(mark_, "mark_ns");
  get(since_, "delay_since");
  time_the_timer(rate);
}

/// Measures the rate until two results in a row are within 1 % of each other, since an idle GPU first raises its clock.
void DelayKernels::time_the_timer(void* kernel) {
  const Runtime& cuda = tables_.runtime;
  Owned memory = device_memory(cuda, 3 * sizeof(std::uint64_t));
  const Owned stream = make_stream(cuda);
  constexpr int kMost = 50;
  for (int i = 0; i < kMost; ++i) {
    std::uint64_t told[3]{};
    void* to = memory.get();
    void* arguments[] = {&to};
    launch_one(kernel, arguments, stream.get());
    check(cuda, cuda.cudaMemcpyAsync(told, to, sizeof told, device_to_host, stream.get()), "cudaMemcpyAsync");
    check(cuda, cuda.cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    if (told[1] == 0) return;
    const double rate = static_cast<double>(told[2]) / static_cast<double>(told[1]);
    const bool settled = std::abs(rate - cycles_per_ns_) <= 0.01 * rate;
    tick_ns_ = static_cast<double>(told[0]), cycles_per_ns_ = rate;
    if (settled) return;
  }
}

void DelayKernels::launch_one(void* kernel, void** arguments, Stream stream) const {
  check(tables_.driver, tables_.driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
        "cuLaunchKernel");
}

namespace {
unsigned long long whole(double ns) { return ns > 0 ? static_cast<unsigned long long>(ns) : 0; }
}  // namespace

void DelayKernels::launch(double ns, Stream stream) const {
  constexpr double kFine = 100;
  const bool coarse = tick_ns_ > kFine;
  unsigned long long time = whole(coarse ? ns * cycles_per_ns_ : ns);
  void* arguments[] = {&time};
  launch_one(coarse ? cycles_ : delay_, arguments, stream);
}

void DelayKernels::mark(void* word, Stream stream) const {
  void* arguments[] = {&word};
  launch_one(mark_, arguments, stream);
}

void DelayKernels::wait_since(void* word, double ns, Stream stream) const {
  unsigned long long time = whole(ns);
  void* arguments[] = {&word, &time};
  launch_one(since_, arguments, stream);
}

}  // namespace trainyard::cuda
