#pragma once

#include <compare>
#include <map>
#include <memory>

#include "profiler/kernels/cuda/dnn_calls.hpp"

namespace trainyard::cuda {

/// A pool over images: windows [r, s] of [n, c, h, w] to [n, c, out_h, out_w].
struct PoolShape {
  int mode = kDnnMaxPool;  // or kDnnAveragePadded, kDnnAverageInside
  int n = 0, c = 0, h = 0, w = 0, r = 0, s = 0, out_h = 0, out_w = 0;
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;
  bool short_ones = false;  // bfloat16

  friend auto operator<=>(const PoolShape&, const PoolShape&) = default;
  /// Whether equal padding on both sides, smaller than a window, gives this output: cuDNN supports no other. Every
  /// window is then inside the padded image.
  bool symmetric() const {
    const auto fits = [](int in, int pad, int window, int stride, int out) {
      return pad < window && (in + 2 * pad - window) / stride + 1 == out;
    };
    return fits(h, pad_h, r, stride_h, out_h) && fits(w, pad_w, s, stride_w, out_w);
  }
};

/// Pools by cuDNN: average pools in both passes, and max pools without a gradient. cuDNN's gradient of a max pool
/// searches x and y for the positions of the maxima. Training graphs keep these positions instead, 8 bytes per result,
/// so that x and y need not stay, and cuDNN's forward call does not return them. A max pool with a gradient thus uses
/// our own kernels in both passes. So do pools with dilated windows, uneven padding or three dimensions, and global
/// pools, which are reductions.
class DnnPool : DnnCalls {
 public:
  static bool there(const Dnn& dnn);  // whether the library has them
  /// `handle`: cuDNN's, whose stream the calls use. Null if the library has no pools.
  static std::unique_ptr<DnnPool> make(const Tables& tables, void* handle);

  // Both throw CudaError, and return false if cuDNN does not support the shape: nothing was done.
  bool forward(const PoolShape& shape, const void* x, void* y);
  /// Backward pass of average pools. The call also takes x and y without needing them: TensorFlow's AvgPoolGrad passes
  /// memory that it never wrote; dx and dy are passed here.
  bool average_backward(const PoolShape& shape, const void* dy, void* dx);

 private:
  struct Descriptors {
    Owned x, y, pool;
  };
  using DnnCalls::DnnCalls;
  const Descriptors& prepared(const PoolShape& shape);

  std::map<PoolShape, Descriptors> prepared_;
};

}  // namespace trainyard::cuda
