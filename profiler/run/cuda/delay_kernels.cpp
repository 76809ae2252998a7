#include "profiler/run/cuda/delay_kernels.hpp"

#include "profiler/kernels/cuda/kernels.hpp"

namespace trainyard::cuda {

DelayKernels::DelayKernels(const Tables& tables, int gpu) : tables_(tables), kernels_(load_kernels(tables, gpu)) {
  const auto get = [&](void*& kernel, const char* name) {
    check(tables.driver, tables.driver.cuLibraryGetKernel(&kernel, kernels_.get(), name), "cuLibraryGetKernel");
  };
  get(delay_, "delay_ns");
  get(mark_, "mark_ns");
  get(since_, "delay_since");
}

void DelayKernels::launch_one(void* kernel, void** arguments, Stream stream) const {
  check(tables_.driver, tables_.driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
        "cuLaunchKernel");
}

namespace {
unsigned long long whole(double ns) { return ns > 0 ? static_cast<unsigned long long>(ns) : 0; }
}  // namespace

void DelayKernels::launch(double ns, Stream stream) const {
  unsigned long long time = whole(ns);
  void* arguments[] = {&time};
  launch_one(delay_, arguments, stream);
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
