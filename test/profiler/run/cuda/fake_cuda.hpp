#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/run/cuda/loader.hpp"

namespace trainyard::test {

/// GPUs that are not there. One at a time: the tables hold plain functions.
///
/// Work runs in virtual time, in the order of the streams: a copy takes latency + bytes x ns_per_byte of its pair of
/// GPUs and really moves the bytes, a kernel takes what `kernel` was told. Time passes only where the host waits. So a
/// run's times are exact, and its order does not depend on the machine.
///
/// What real CUDA lets pass in silence, or answers by wrong data, is a violation: a wait for an event that was never
/// recorded; an event of another GPU than its stream's; a copy from or to memory that was never given, was freed, or is
/// another GPU's than said; memory freed while work on it is pending; a part of a GPU made before the GPU's own
/// context; a copy by the SMs of a part that computes; a product of cuBLAS on a part of a GPU for which it was not told
/// the SMs; within the capture of a graph: a wait for the stream, a wait for an event from outside, a stream that is
/// not joined, the time of an event that only orders, a product in cuBLAS's own workspace, which it would allocate
/// there; tensors of cuDNN's pools and softmax on another GPU than its stream's, or with descriptors that do not fit;
/// two accesses to the same bytes of which one writes and neither waits for the other; streams that wait for ever. The
/// first one aborts the program, unless `collect`.
struct FakeCudaOptions {
  int devices = 2;
  bool peers = true;
  std::size_t memory = std::size_t{1} << 30;  // of each GPU
  unsigned sms = 132;
  double latency_ns = 5'000, ns_per_byte = 0.01;           // between GPUs
  double own_latency_ns = 1'000, own_ns_per_byte = 0.001;  // within one
  int driver_version = 13000, runtime_version = 13000;
  std::string lacks_library, lacks_symbol;
  std::string ignored;  // calls of this function do nothing, as if there were none
  std::string fails;    // this function, at its call number `fails_at` (from 1), with `status`
  int fails_at = 1;
  int status = 719;
  double tracing_ns = 0;                   // what CUPTI adds to each kernel
  std::size_t dropped_records = 0;         // that CUPTI tells of, once
  bool deterministic_convolutions = true;  // that cuDNN has some
  bool wrong_heuristics = false;           // the first of these fails as not supported
  bool other_dnn = true;                   // that cuDNN supports batch norms, pools and softmax
  unsigned threads = 1;                    // of each block of our kernels
  std::size_t queue = 1 << 20;             // pieces of work that a stream holds: beyond, the host waits
  double launch_ns = 0;                    // of the host's time, for each kernel and copy
  double gate_skew_ns = 0;                 // by which each further stream passes a gate later than the one before
  double event_ns = 0;                     // of the stream's time, for each record of an event that tells the time
  double timer_tick_ns = 1;                // of %globaltimer
  double slowed_by_copies = 0;        // the share that kernels take longer on a GPU that copies to or from the host
  double kernel_drift = 0;            // by which share each kernel takes longer than the one before
  std::vector<unsigned> clocks = {};  // of SMs, MHz, that NVML tells one after the other, and then the last; or none
  std::size_t copied_by_sms = 0;      // copies within a GPU of fewer bytes are made by its SMs, all or those of a part
  bool shared_engines = false;        // copies of one direction between a GPU and the host take turns
  unsigned least_part = 1;            // SMs of a context, with fewer of which there is none
  bool collect = false;
};

class FakeCuda : public cuda::LibrarySource {
 public:
  explicit FakeCuda(FakeCudaOptions options = {});
  ~FakeCuda() override;

  std::vector<std::string> paths(const std::vector<std::string>& files) override;
  void* open(const std::string& path) override;
  void* symbol(void* library, const char* name) override;

  /// A kernel of this duration on the stream that reads and writes these bytes.
  struct Bytes {
    const void* at;
    std::size_t size;
  };
  static void kernel(cuda::Stream stream, double ns, std::vector<Bytes> reads, std::vector<Bytes> writes,
                     void (*effect)(const std::vector<Bytes>&, const std::vector<Bytes>&) = nullptr);

  const std::vector<std::string>& violations() const;
  /// What was made and not given back: streams, events, memory, contexts.
  std::size_t alive() const;
  int calls(const std::string& function) const;
  /// Bytes of GPUs' memory that were given and not given back.
  std::size_t used() const;
};

}  // namespace trainyard::test
