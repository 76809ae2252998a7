#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/run/cuda/loader.hpp"

namespace trainyard::test {

/// Fake GPUs: tables of plain functions in place of the CUDA libraries. Only one FakeCuda can exist at a time.
///
/// Work runs in virtual time, in stream order. A copy takes latency + bytes x ns_per_byte of its pair of GPUs and
/// really moves the bytes; a kernel takes the time that `kernel` was given. Time passes only when the host waits. So
/// the times of a run are exact, and its order does not depend on the machine.
///
/// Uses that real CUDA accepts silently or answers with wrong data are violations:
/// - events: a wait for an event that was never recorded; an event of a GPU other than its stream's;
/// - memory: a copy from or to memory that was never allocated, was freed, or belongs to a GPU other than stated;
///   memory freed while work on it is pending; two accesses to the same bytes of which one writes and neither waits for
///   the other;
/// - parts of a GPU: a part made before the GPU's own context; a copy by the SMs of a part that computes; a cuBLAS
///   product on a part without cuBLAS's SM target;
/// - graph capture: a wait of the host for the stream; a wait for an event from outside; a stream that is not joined;
///   the time of an event that only orders; a product in cuBLAS's own workspace, which cuBLAS would allocate during the
///   capture;
/// - cuDNN pools and softmax: tensors on a GPU other than the stream's; descriptors that do not fit;
/// - streams that wait for ever.
/// The first violation aborts the program, unless `collect` is set.
struct FakeCudaOptions {
  int devices = 2;
  bool peers = true;
  std::size_t memory = std::size_t{1} << 30;  // of each GPU, in bytes
  unsigned sms = 132;
  double latency_ns = 5'000, ns_per_byte = 0.01;           // between GPUs
  double own_latency_ns = 1'000, own_ns_per_byte = 0.001;  // within a GPU
  int driver_version = 13000, runtime_version = 13000;
  std::string lacks_library, lacks_symbol;
  std::string ignored;  // calls of this function have no effect
  std::string fails;    // function whose call number `fails_at` (from 1) returns `status`
  int fails_at = 1;
  int status = 719;
  double tracing_ns = 0;                   // added by CUPTI to each kernel
  std::size_t dropped_records = 0;         // reported by CUPTI, once
  bool deterministic_convolutions = true;  // whether cuDNN has any
  bool wrong_heuristics = false;           // the first of these fails as not supported
  bool other_dnn = true;                   // whether cuDNN supports batch norms, pools, softmax
  unsigned threads = 1;                    // threads of each block of our kernels
  std::size_t queue = 1 << 20;             // commands that a stream holds; with more the host waits
  double launch_ns = 0;                    // host time of each kernel or copy launch
  double gate_skew_ns = 0;                 // delay of each further stream at a start gate
  double event_ns = 0;                     // stream time of each record of a timing event
  double timer_tick_ns = 1;                // resolution of %globaltimer
  double slowed_by_copies = 0;             // relative slowdown of kernels while the GPU copies
  double kernel_drift = 0;                 // growth of the kernel time from one kernel to the next, as a share
  std::vector<unsigned> clocks = {};       // SM clocks in MHz that NVML reports in turn, then the last; may be empty
  std::size_t copied_by_sms = 0;           // copies within a GPU below this many bytes use its SMs, or its part's
  bool shared_engines = false;             // host copies of a GPU in one direction take turns
  unsigned least_part = 1;                 // minimum SMs of a part; smaller parts fail
  bool collect = false;
};

class FakeCuda : public cuda::LibrarySource {
 public:
  explicit FakeCuda(FakeCudaOptions options = {});
  ~FakeCuda() override;

  std::vector<std::string> paths(const std::vector<std::string>& files) override;
  void* open(const std::string& path) override;
  void* symbol(void* library, const char* name) override;

  /// An array that a kernel reads or writes.
  struct Bytes {
    const void* at;
    std::size_t size;
  };
  /// Issues a kernel that takes `ns` on the stream, runs `effect` and accesses these arrays.
  static void kernel(cuda::Stream stream, double ns, std::vector<Bytes> reads, std::vector<Bytes> writes,
                     void (*effect)(const std::vector<Bytes>&, const std::vector<Bytes>&) = nullptr);

  const std::vector<std::string>& violations() const;
  /// Number of streams, events, memory blocks and contexts created but not yet released.
  std::size_t alive() const;
  int calls(const std::string& function) const;
  /// Bytes of GPU memory allocated but not yet freed.
  std::size_t used() const;
};

}  // namespace trainyard::test
