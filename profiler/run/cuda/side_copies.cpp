#include "profiler/run/cuda/side_copies.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard::cuda {
namespace {
constexpr std::size_t kSize = std::size_t{4} << 20;  // large enough for full speed
}

SideCopies::SideCopies(const Tables& tables, int gpu) : cuda_(tables.runtime), gpu_(gpu) {
  check(cuda_, cuda_.cudaSetDevice(gpu), "cudaSetDevice");
  for (const int kind : {host_to_device, device_to_host}) {
    Way& way = ways_.emplace_back();
    way.kind = kind;
    way.host = pinned_memory(cuda_, kSize);
    way.device = device_memory(cuda_, kSize);
    way.start = make_event(cuda_);
    way.end = make_event(cuda_);
    way.stream = make_stream(cuda_);
  }
}

void SideCopies::issue(Event begin, std::size_t most) {
  check(cuda_, cuda_.cudaSetDevice(gpu_), "cudaSetDevice");
  count_ = std::min(count_, most > 4 ? most - 3 : 1);
  for (Way& way : ways_) {
    const Stream stream = way.stream.get();
    check(cuda_, cuda_.cudaStreamWaitEvent(stream, begin, 0), "cudaStreamWaitEvent");
    check(cuda_, cuda_.cudaEventRecord(way.start.get(), stream), "cudaEventRecord");
    void *to = way.device.get(), *from = way.host.get();
    if (way.kind == device_to_host) std::swap(to, from);
    for (std::size_t i = 0; i < count_; ++i)
      check(cuda_, cuda_.cudaMemcpyAsync(to, from, kSize, way.kind, stream), "cudaMemcpyAsync");
    check(cuda_, cuda_.cudaEventRecord(way.end.get(), stream), "cudaEventRecord");
  }
}

bool SideCopies::outlasted(double step_ns) {
  check(cuda_, cuda_.cudaSetDevice(gpu_), "cudaSetDevice");
  double shortest = 0;
  rate_ = {};
  for (const Way& way : ways_) {
    check(cuda_, cuda_.cudaStreamSynchronize(way.stream.get()), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(cuda_, cuda_.cudaEventElapsedTime(&milliseconds, way.start.get(), way.end.get()), "cudaEventElapsedTime");
    const double ns = std::max(1.0, static_cast<double>(milliseconds) * 1e6);
    rate_.value += static_cast<double>(count_ * kSize) / (ns * 1e-9);
    shortest = shortest == 0 ? ns : std::min(shortest, ns);
  }
  constexpr double kMargin = 1.25;
  const double each = shortest / static_cast<double>(count_);
  count_ = std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(kMargin * step_ns / each)));
  return shortest >= step_ns;
}

}  // namespace trainyard::cuda
