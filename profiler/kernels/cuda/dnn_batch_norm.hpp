#pragma once

#include <compare>
#include <map>
#include <memory>

#include "profiler/kernels/cuda/dnn_calls.hpp"

namespace trainyard::cuda {

/// Images [n, c, plane], normalized by the statistics of each channel over images and planes.
struct BatchNormShape {
  int n = 0, c = 0, plane = 0;
  bool short_ones = false;  // bfloat16; scale, shift and statistics are always floats

  friend auto operator<=>(const BatchNormShape&, const BatchNormShape&) = default;
};

/// Batch norms by cuDNN, as in PyTorch. Data kept between the passes has the layout of our own kernels.
class DnnBatchNorm : DnnCalls {
 public:
  static bool there(const Dnn& dnn);  // whether the library has them
  /// `handle`: cuDNN's, whose stream the calls use. Null if the library has no batch norms.
  static std::unique_ptr<DnnBatchNorm> make(const Tables& tables, void* handle);

  // Both throw CudaError, and return false if cuDNN does not support the shape: nothing was done.
  bool forward(const BatchNormShape& shape, double epsilon, const void* x, const float* scale, const float* shift,
               void* y, float* mean, float* inverse);
  bool backward(const BatchNormShape& shape, double epsilon, const void* x, const void* dy, const float* scale,
                const float* mean, const float* inverse, void* dx, float* dscale, float* dshift);

 private:
  struct Descriptors {
    Owned images, vectors;
  };
  using DnnCalls::DnnCalls;
  const Descriptors& prepared(const BatchNormShape& shape);

  std::map<BatchNormShape, Descriptors> prepared_;
};

}  // namespace trainyard::cuda
