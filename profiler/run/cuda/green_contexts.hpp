#pragma once

#include <vector>

#include "profiler/run/cuda/executor.hpp"

namespace trainyard::cuda {

/// SMs of each of `parts` equal parts of a GPU: rounded down to what the GPU co-schedules, as the driver
/// rounds up and then has too few parts (132 / 4 = 33 becomes 40, and 3 parts). 0 where there are not enough SMs.
unsigned sms_per_part(unsigned sms, unsigned parts, unsigned alignment, unsigned least);

/// One GPU as several devices: its SMs split by one call (separate ones may overlap) into green contexts, whose streams
/// run on their SMs alone. Memory, L2 and copy engines stay shared. Work in the primary context would run on all SMs,
/// so every stream must be one of these. The SMs that the split leaves over are for copies, which some drivers make by
/// kernels: they take none of a part's. Where none are left, or too few for a context, parts are smaller. Throws
/// MissingError where the GPU cannot be split so, CudaError otherwise.
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
