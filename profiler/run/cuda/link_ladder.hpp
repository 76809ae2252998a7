#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/run/cuda/owned.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::cuda {

/// One end of a link: a GPU, or the host (-1).
inline constexpr int kHost = -1;

struct LadderOptions {
  std::vector<Bytes> sizes = {};  // empty: 256 B to 256 MiB (pageable: 16 MiB), each 4 times the last, as memory allows
  int warm = 4, samples = 8;
  std::int64_t most_ns = 4'000'000'000;  // larger sizes are then left out, but for the first kFewestSizes
  int together = 16;  // most copies between two events, 64 MiB in all: one may be shorter than the events' resolution
  bool pinned = true;
  bool bounced = false;                     // within one GPU: through pinned memory of the host
  bool both_ways = false;                   // with as many bytes in the other direction
  std::function<Owned()> make_stream = {};  // for the copies; empty: an ordinary stream of the GPU
};

/// Times copies of each size from one end to the other, up to `together` at a time by events on one stream; a sample is
/// the mean time of one copy. A delay kernel keeps the stream busy until all are launched, so that launches are not
/// timed. The engine is CUPTI's report for the smallest and the largest copy: "ce", "sm", "sm, ce"; empty if unknown.
/// Throws std::runtime_error if the received bytes differ from those sent, MissingError without memory for a copy, and
/// CudaError.
LinkMeasurement link_ladder(const Tables& tables, int from, int to, const LadderOptions& options = {});

/// Name of an end: "gpu0", "host".
std::string end_name(int gpu);

}  // namespace trainyard::cuda
