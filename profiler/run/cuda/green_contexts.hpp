#pragma once

#include <vector>

#include "profiler/run/cuda/executor.hpp"

namespace trainyard::cuda {

/// SMs of each of `parts` equal parts of a GPU, rounded down to the GPU's granularity; 0 if there are too few SMs. The
/// driver would round up, and then make too few parts (132 / 4 = 33 becomes 40, and 3 parts).
unsigned sms_per_part(unsigned sms, unsigned parts, unsigned alignment, unsigned least);

/// One GPU as several devices. One call (separate calls may overlap) splits its SMs into green contexts, whose streams
/// run on their SMs alone. Memory, L2 and copy engines stay shared. Work in the primary context would run on all SMs,
/// so every stream must belong to a green context. SMs left over by the split serve copies, which some drivers make by
/// kernels, so that copies take no SMs of a part. If none are left, or too few for a context, parts are made smaller.
/// Throws MissingError if the GPU cannot be split this way, CudaError otherwise.
class GreenContexts {
 public:
  GreenContexts(const Tables& tables, int gpu, unsigned parts);
  GreenContexts(GreenContexts&&) = delete;

  unsigned sms() const { return sms_; }  // of each part
  /// Targets for the devices of a cluster, one per part. They refer to this object.
  std::vector<Target> targets() const;
  /// A stream for copies between them.
  Owned make_link_stream() const { return make_stream(copies_); }

 private:
  Owned make_context(DeviceResource& resource) const;
  Owned make_stream(const Owned& context) const;

  const Tables& tables_;
  int gpu_;
  unsigned sms_ = 0;
  Owned copies_;
  std::vector<Owned> contexts_;
};

}  // namespace trainyard::cuda
