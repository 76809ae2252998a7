#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/run/cuda/errors.hpp"
#include "profiler/run/cuda/owned.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::cuda {

/// One end of a link: a GPU, or the host (-1).
inline constexpr int kHost = -1;

struct LadderOptions {
  std::vector<Bytes> sizes =
      {};  // empty: 256 B to 256 MiB (16 MiB: pageable), each four times the last, as memory allows
  int warm = 4, samples = 8;
  int together =
      16;  // copies between two events at most, of up to 64 MiB: one alone is as long as the events are exact
  bool pinned = true;
  bool bounced = false;                     // within one GPU: through pinned memory of the host
  bool both_ways = false;                   // while as many bytes go the other way
  std::function<Owned()> make_stream = {};  // for the copies; empty: an ordinary stream of the GPU
};

/// Times copies of each size from one end to the other, `together` at a time by events on one stream; a sample is the
/// mean of one. A kernel keeps the stream busy until all of them are launched: their launches are not timed. The engine
/// is what CUPTI tells of the smallest and the largest copy: "ce", "sm", "sm, ce"; empty where it does not. What
/// arrives is compared with what left: a difference throws std::runtime_error. Throws CudaError.
LinkMeasurement link_ladder(const Tables& tables, int from, int to, const LadderOptions& options = {});

/// "gpu0", "host".
std::string end_name(int gpu);

}  // namespace trainyard::cuda
