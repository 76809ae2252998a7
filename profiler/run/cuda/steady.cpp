#include "profiler/run/cuda/steady.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "profiler/kernels/cuda/kernels.hpp"
#include "profiler/run/cuda/owned.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/statistics.hpp"

namespace trainyard::cuda {
namespace {

constexpr std::size_t kCopied = std::size_t{64} << 20;

/// Identical work each time, on a separate stream.
class FixedWork {
 public:
  FixedWork(const Tables& tables, int gpu) : tables_(tables), kernels_(load_kernels(tables, gpu)) {
    check(tables.driver, tables.driver.cuLibraryGetKernel(&burn_, kernels_.get(), "burn"), "cuLibraryGetKernel");
    check(cuda_, cuda_.cudaDeviceGetAttribute(&sms_, sm_count, gpu), "cudaDeviceGetAttribute");
    word_ = device_memory(cuda_, sizeof(float));
    begin_ = make_event(cuda_);
    end_ = make_event(cuda_);
    stream_ = make_stream(cuda_);
  }
  FixedWork(FixedWork&&) = delete;

  void compute(std::uint64_t rounds) const {
    constexpr unsigned kThreads = 256;
    void* word = word_.get();
    void* arguments[] = {&word, &rounds};
    check(tables_.driver,
          tables_.driver.cuLaunchKernel(burn_, static_cast<unsigned>(sms_) * 2, 1, 1, kThreads, 1, 1, 0, stream_.get(),
                                        arguments, nullptr),
          "cuLaunchKernel");
  }
  void make_room() {
    try {
      from_ = device_memory(cuda_, kCopied), to_ = device_memory(cuda_, kCopied);
    } catch (const CudaError& error) {
      if (error.status() != kOutOfMemory) throw;
      throw MissingError("the GPU has too little memory left to time a copy of 64 MiB",
                         "end other processes on the GPU");
    }
  }
  void copy() const {
    check(cuda_, cuda_.cudaMemcpyAsync(to_.get(), from_.get(), kCopied, device_to_device, stream_.get()),
          "cudaMemcpyAsync");
  }
  void wait() const { check(cuda_, cuda_.cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }
  template <class Work>
  double time(const Work& work) const {
    check(cuda_, cuda_.cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
    work();
    check(cuda_, cuda_.cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
    wait();
    float milliseconds = 0;
    check(cuda_, cuda_.cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e6;
  }

 private:
  const Tables& tables_;
  const Runtime& cuda_ = tables_.runtime;
  Owned kernels_;
  void* burn_ = nullptr;
  int sms_ = 1;
  Owned word_, from_, to_, begin_, end_, stream_;
};

template <class Work>
double swing(const FixedWork& fixed, const Work& work) {
  constexpr int kBlocks = 8, kMost = 100;
  constexpr double kBlockNs = 20e6;
  std::vector<double> medians;
  for (int block = -1; block < kBlocks; ++block) {  // the first one warms up
    std::vector<double> times;
    double sum = 0;
    while (sum < kBlockNs && times.size() < kMost) sum += times.emplace_back(fixed.time(work));
    if (block >= 0) medians.push_back(upper_quantile_of(std::move(times)));
  }
  const auto [least, most] = std::ranges::minmax(medians);
  const double median = upper_quantile_of(std::move(medians));
  return median > 0 ? (most - least) / median : 0;
}

}  // namespace

void warm_up(const Tables& tables, int gpu, const ClockLog& clocks) {
  if (clocks.read(gpu) == 0) return;
  constexpr int kMost = 75, kAlike = 5;
  constexpr std::uint64_t kRounds = 8'000'000;  // 4 cycles each: some 20 ms
  const FixedWork fixed{tables, gpu};
  unsigned least = 0, most = 0;
  for (int i = 0, alike = 0; i < kMost && alike < kAlike; ++i) {
    fixed.compute(kRounds);
    const unsigned now = clocks.read(gpu);
    least = std::min(least, now), most = std::max(most, now);
    if (alike == 0 || most - least > most / 100) least = most = now, alike = 0;
    ++alike;
    fixed.wait();
  }
}

double gpu_noise(const Tables& tables, int gpu) {
  constexpr std::uint64_t kRounds = 80'000;  // some 200 us
  FixedWork fixed{tables, gpu};
  fixed.make_room();
  return std::max(swing(fixed, [&] { fixed.compute(kRounds); }), swing(fixed, [&] { fixed.copy(); }));
}

}  // namespace trainyard::cuda
