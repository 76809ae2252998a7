#include "profiler/run/cuda/side_copies.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "trainyard/core/error.hpp"

namespace trainyard::cuda {
namespace {

/// Limit on the copies on one stream: a full queue blocks the host, behind a closed gate forever. An H100 took 550 of
/// them, and hung at about 700.
constexpr std::size_t kMostCopies = 128;
constexpr std::size_t kLargest = std::size_t{256} << 20;

}  // namespace

SideCopies::SideCopies(const Tables& tables, int gpu, const std::function<Owned()>& neighbour)
    : cuda_(tables.runtime), gpu_(gpu) {
  check(cuda_, cuda_.cudaSetDevice(gpu), "cudaSetDevice");
  for (const int kind : {host_to_device, device_to_host, device_to_device}) {
    const bool within = kind == device_to_device;
    if (within && !neighbour) continue;
    Way& way = ways_.emplace_back();
    way.kind = kind;
    make_room(way, std::size_t{within ? 128U : 4U} << 20);  // larger than the L2 cache; enough for a link
    way.start = make_event(cuda_);
    way.end = make_event(cuda_);
    way.stream = within ? neighbour() : make_stream(cuda_);
  }
}

void SideCopies::make_room(Way& way, std::size_t size) const {
  way.host = {}, way.device = {};
  try {
    way.host = way.kind == device_to_device ? device_memory(cuda_, size) : pinned_memory(cuda_, size);
    way.device = device_memory(cuda_, size);
  } catch (const CudaError& error) {
    if (error.status() != kOutOfMemory) throw;
    if (way.size == 0)
      throw MissingError("GPU " + std::to_string(gpu_) + " has too little memory left for copies beside a step",
                         "profile a smaller batch too, to measure how much copies slow down ops");
    return make_room(way, std::exchange(way.size, 0));  // the previous size
  }
  way.size = size;
}

void SideCopies::issue(Event begin) {
  check(cuda_, cuda_.cudaSetDevice(gpu_), "cudaSetDevice");
  for (Way& way : ways_) {
    const Stream stream = way.stream.get();
    check(cuda_, cuda_.cudaStreamWaitEvent(stream, begin, 0), "cudaStreamWaitEvent");
    check(cuda_, cuda_.cudaEventRecord(way.start.get(), stream), "cudaEventRecord");
    void *to = way.device.get(), *from = way.host.get();
    if (way.kind == device_to_host) std::swap(to, from);
    for (std::size_t i = 0; i < way.count; ++i)
      check(cuda_, cuda_.cudaMemcpyAsync(to, from, way.size, way.kind, stream), "cudaMemcpyAsync");
    check(cuda_, cuda_.cudaEventRecord(way.end.get(), stream), "cudaEventRecord");
  }
}

bool SideCopies::outlasted(double step_ns) {
  check(cuda_, cuda_.cudaSetDevice(gpu_), "cudaSetDevice");
  constexpr double kMargin = 1.25;
  bool all = true;
  rate_ = {};
  for (Way& way : ways_) {
    check(cuda_, cuda_.cudaStreamSynchronize(way.stream.get()), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(cuda_, cuda_.cudaEventElapsedTime(&milliseconds, way.start.get(), way.end.get()), "cudaEventElapsedTime");
    const double ns = std::max(1.0, static_cast<double>(milliseconds) * 1e6);
    const double touched = way.kind == device_to_device ? 2 : 1;
    rate_.value += touched * static_cast<double>(way.count * way.size) / (ns * 1e-9);
    all = all && ns >= step_ns;
    const double each = ns / static_cast<double>(way.count);
    const auto wanted = std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(kMargin * step_ns / each)));
    const std::size_t larger = std::min(std::bit_ceil((wanted + kMostCopies - 1) / kMostCopies), kLargest / way.size);
    const std::size_t before = way.size;
    if (larger > 1) make_room(way, before * larger);
    const std::size_t grown = way.size / before;
    way.count = std::min((wanted + grown - 1) / grown, kMostCopies);
  }
  return all;
}

}  // namespace trainyard::cuda
