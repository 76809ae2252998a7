#include "profiler/run/cuda/delay_kernels.hpp"

#include "profiler/kernels/cuda/kernels.hpp"

namespace trainyard::cuda {

DelayKernels::DelayKernels(const Tables& tables, int gpu) : tables_(tables), kernels_(load_kernels(tables, gpu)) {
  check(tables.driver, tables.driver.cuModuleGetFunction(&function_, kernels_.get(), "delay_ns"),
        "cuModuleGetFunction");
}

void DelayKernels::launch(double ns, Stream stream) const {
  unsigned long long whole = ns > 0 ? static_cast<unsigned long long>(ns) : 0;
  void* arguments[] = {&whole};
  check(tables_.driver, tables_.driver.cuLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
        "cuLaunchKernel");
}

}  // namespace trainyard::cuda
