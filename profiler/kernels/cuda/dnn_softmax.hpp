#pragma once

#include <compare>
#include <map>
#include <memory>

#include "profiler/kernels/cuda/dnn_calls.hpp"

namespace trainyard::cuda {

/// Softmax over c of [n, c, plane], or its logarithm.
struct SoftmaxShape {
  int n = 0, c = 0, plane = 1;
  bool logs = false;
  bool short_ones = false;  // bfloat16

  friend auto operator<=>(const SoftmaxShape&, const SoftmaxShape&) = default;
};

/// Softmax by cuDNN's accurate algorithm. Losses keep logarithms in 32 bits whatever the type of the logits; cuDNN has
/// no call for that, so they use our own kernels.
class DnnSoftmax : DnnCalls {
 public:
  static bool there(const Dnn& dnn);  // whether the library has them
  /// `handle`: cuDNN's, whose stream the calls use. Null if the library has no softmax.
  static std::unique_ptr<DnnSoftmax> make(const Tables& tables, void* handle);

  // Both throw CudaError, and return false if cuDNN does not support the shape: nothing was done.
  bool forward(const SoftmaxShape& shape, const void* x, void* y);
  bool backward(const SoftmaxShape& shape, const void* y, const void* dy, void* dx);

 private:
  using DnnCalls::DnnCalls;
  void* prepared(const SoftmaxShape& shape);

  std::map<SoftmaxShape, Owned> prepared_;
};

}  // namespace trainyard::cuda
