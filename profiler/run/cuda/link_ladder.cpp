#include "profiler/run/cuda/link_ladder.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <stdexcept>

#include "profiler/backend.hpp"
#include "profiler/clock.hpp"
#include "profiler/run/cuda/activity_records.hpp"
#include "profiler/run/cuda/delay_kernels.hpp"
#include "profiler/run/cuda/owned.hpp"
#include "profiler/run/cuda/tracer.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cuda {
namespace {

void check(const Tables& tables, Status status, const char* call) { cuda::check(tables.runtime, status, call); }

/// Memory at one end: of a GPU, or of the host, pinned or not.
class EndMemory {
 public:
  EndMemory(const Tables& tables, int gpu, bool pinned, std::size_t size) {
    if (gpu == kHost && !pinned) {
      pageable_.resize(size);
      return;
    }
    if (gpu != kHost) check(tables, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");
    owned_ = gpu == kHost ? pinned_memory(tables.runtime, size) : device_memory(tables.runtime, size);
  }
  void* at() { return owned_ ? owned_.get() : pageable_.data(); }

 private:
  Owned owned_;
  std::vector<unsigned char> pageable_;
};

/// A stream and two events on one GPU.
class Timer {
 public:
  Timer(const Tables& tables, int gpu, const std::function<Owned()>& own) : tables_(tables), delay_(tables, gpu) {
    check(tables, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");
    begin_ = make_event(tables.runtime);
    end_ = make_event(tables.runtime);
    stream_ = own ? own() : make_stream(tables.runtime);
    other_ = make_stream(tables.runtime);
  }
  Stream stream() const { return stream_.get(); }

  /// Nanoseconds of the work, of `pieces` launches, that `issue` puts on the stream. `beside`, if not empty, gets a
  /// stream for work that begins at the same time.
  template <class Issue>
  double time(int pieces, const Issue& issue, const std::function<void(Stream)>& beside = {}) {
    constexpr double kFirst = 50'000, kEach = 10'000;
    delay_.launch(kFirst + kEach * pieces, stream());
    check(tables_, tables_.runtime.cudaEventRecord(begin_.get(), stream()), "cudaEventRecord");
    if (beside) {
      check(tables_, tables_.runtime.cudaStreamWaitEvent(other_.get(), begin_.get(), 0), "cudaStreamWaitEvent");
      beside(other_.get());
    }
    issue();
    check(tables_, tables_.runtime.cudaEventRecord(end_.get(), stream()), "cudaEventRecord");
    for (const Owned* each : {&stream_, &other_})
      check(tables_, tables_.runtime.cudaStreamSynchronize(each->get()), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(tables_, tables_.runtime.cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()),
          "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e6;
  }

 private:
  const Tables& tables_;
  DelayKernels delay_;
  Owned begin_, end_, stream_, other_;
};

std::size_t free_bytes(const Tables& tables, int gpu) {
  std::size_t free = 0, total = 0;
  check(tables, tables.runtime.cudaSetDevice(gpu), "cudaSetDevice");
  check(tables, tables.runtime.cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// Launches one copy between any two ends. `way`: pinned host memory through which it goes; null for a direct copy.
void copy(const Tables& tables, void* to, int to_gpu, const void* from, int from_gpu, std::size_t size, Stream stream,
          void* way = nullptr) {
  if (way) {
    copy(tables, way, kHost, from, from_gpu, size, stream);
    return copy(tables, to, to_gpu, way, kHost, size, stream);
  }
  if (from_gpu != kHost && to_gpu != kHost && from_gpu != to_gpu)
    return check(tables, tables.runtime.cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, size, stream),
                 "cudaMemcpyPeerAsync");
  const int kind = from_gpu == kHost ? host_to_device : to_gpu == kHost ? device_to_host : device_to_device;
  check(tables, tables.runtime.cudaMemcpyAsync(to, from, size, kind, stream), "cudaMemcpyAsync");
}

/// The engines that copy the smallest and the largest size, by CUPTI.
template <class Issue>
std::string engine_of(const Tables& tables, const std::vector<Bytes>& sizes, const Issue& issue) {
  std::set<int> channels;
  try {
    Tracer tracer{tables};
    for (const Bytes bytes : {sizes.front(), sizes.back()}) issue(static_cast<std::size_t>(bytes.count));
    for (const CopyActivity& copy : tracer.take().copies) channels.insert(copy.channel);
  } catch (const MissingError&) {  // no CUPTI, or not for this user
  } catch (const CudaError&) {
  }
  const bool by_sms = channels.contains(kComputeChannel), by_engine = channels.contains(kCopyChannel);
  return by_sms && by_engine ? "sm, ce" : by_sms ? "sm" : by_engine ? "ce" : "";
}

}  // namespace

std::string end_name(int gpu) { return gpu == kHost ? "host" : "gpu" + std::to_string(gpu); }

LinkMeasurement link_ladder(const Tables& tables, int from, int to, const LadderOptions& options) {
  const int home = from == kHost ? to : from;
  std::size_t room = free_bytes(tables, home) / 4;
  if (to != kHost) room = std::min(room, free_bytes(tables, to) / 4);
  std::vector<Bytes> sizes = options.sizes;
  if (sizes.empty())
    for (std::int64_t bytes = 256; bytes <= std::int64_t{1} << (options.pinned ? 28 : 24); bytes *= 4)
      sizes.push_back(Bytes{bytes});
  std::erase_if(sizes, [&](Bytes bytes) { return static_cast<std::size_t>(bytes.count) > room; });
  if (sizes.empty())
    throw MissingError("too little memory is left on " + end_name(home) + " for a copy",
                       "end other processes that use it");
  const auto largest = static_cast<std::size_t>(std::ranges::max(sizes).count);

  EndMemory source{tables, from, options.pinned, largest}, target{tables, to, options.pinned, largest};
  std::vector<unsigned char> pattern(largest);
  for (std::size_t i = 0; i < largest; ++i) pattern[i] = static_cast<unsigned char>(i * 131 + i / 251);
  const Owned way = options.bounced ? pinned_memory(tables.runtime, largest) : Owned{};
  Timer timer{tables, home, options.make_stream};
  LinkMeasurement link{.from = end_name(from),
                       .to = end_name(to),
                       .path = options.bounced                ? "host-bounce"
                               : from == kHost || to == kHost ? "pcie"
                               : from == to                   ? "d2d"
                                                              : "peer",
                       .pinned = options.pinned};
  if (options.both_ways) link.beside.push_back(end_name(to) + "-" + end_name(from));
  EndMemory back_source{tables, to, options.pinned, options.both_ways ? largest : 1},
      back_target{tables, from, options.pinned, options.both_ways ? largest : 1};
  if (from == kHost)
    std::memcpy(source.at(), pattern.data(), largest);
  else
    timer.time(1, [&] { copy(tables, source.at(), from, pattern.data(), kHost, largest, timer.stream()); });
  const std::int64_t until = now_ns() + options.most_ns;
  for (const Bytes bytes : sizes) {
    if (link.sizes.size() >= kFewestSizes && now_ns() > until) break;
    const auto size = static_cast<std::size_t>(bytes.count);
    SizeMeasurement measured{bytes, {}};
    constexpr std::int64_t kTogether = std::int64_t{64} << 20;
    const int together = static_cast<int>(std::clamp<std::int64_t>(kTogether / bytes.count, 1, options.together));
    for (int sample = -options.warm; sample < options.samples; ++sample) {
      const auto there = [&] {
        for (int i = 0; i < together; ++i)
          copy(tables, target.at(), to, source.at(), from, size, timer.stream(), way.get());
      };
      const auto back = [&](Stream stream) {  // twice as many copies, to outlast the timed ones
        for (int i = 0; i < 2 * together; ++i) copy(tables, back_target.at(), from, back_source.at(), to, size, stream);
      };
      const int pieces = together * ((way ? 2 : 1) + (options.both_ways ? 2 : 0));
      const double ns = timer.time(pieces, there, options.both_ways ? back : std::function<void(Stream)>{});
      if (sample >= 0)
        measured.samples.kept.push_back(Nanoseconds{static_cast<std::int64_t>(std::floor(ns / together + 0.5))});
    }
    link.sizes.push_back(std::move(measured));
  }
  sizes.resize(link.sizes.size());
  const auto reached = static_cast<std::size_t>(std::ranges::max(sizes).count);
  pattern.resize(reached);
  std::vector<unsigned char> arrived(reached);
  link.engine = engine_of(tables, sizes, [&](std::size_t size) {
    timer.time(1, [&] { copy(tables, target.at(), to, source.at(), from, size, timer.stream(), way.get()); });
  });
  if (to == kHost)
    std::memcpy(arrived.data(), target.at(), reached);
  else
    timer.time(1, [&] { copy(tables, arrived.data(), kHost, target.at(), to, reached, timer.stream()); });
  if (arrived != pattern)
    throw std::runtime_error("a copy from " + end_name(from) + " to " + end_name(to) + " arrived with wrong data");
  return link;
}

}  // namespace trainyard::cuda
