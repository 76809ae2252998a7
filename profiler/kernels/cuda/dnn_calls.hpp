#pragma once

#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

/// Calls of cuDNN's older API on a handle, whose stream they use: status checks and tensor descriptors.
class DnnCalls {
 protected:
  DnnCalls(const Tables& tables, void* handle) : dnn_(tables.dnn), handle_(handle) {}
  DnnCalls(DnnCalls&&) = delete;

  /// Throws CudaError.
  void check(Status status, const char* call) const {
    if (status != 0) throw CudaError{call, status, dnn_.cudnnGetErrorString(status)};
  }
  /// False if cuDNN does not support the request: nothing was done. Throws CudaError for other failures.
  bool done(Status status, const char* call) const {
    if (status / 1000 == kDnnNotSupported / 1000) return false;
    check(status, call);
    return true;
  }
  /// Descriptor of an array [n, c, h, w] of floats or bfloat16, without gaps.
  Owned tensor(bool short_ones, int n, int c, int h, int w) const {
    void* descriptor = nullptr;
    check(dnn_.cudnnCreateTensorDescriptor(&descriptor), "cudnnCreateTensorDescriptor");
    Owned made{descriptor, {dnn_.cudnnDestroyTensorDescriptor}};
    check(
        dnn_.cudnnSetTensor4dDescriptor(descriptor, kDnnChannelsFirst, short_ones ? kDnnShort : kDnnFloat, n, c, h, w),
        "cudnnSetTensor4dDescriptor");
    return made;
  }

  const Dnn& dnn_;
  void* const handle_;
};

}  // namespace trainyard::cuda
