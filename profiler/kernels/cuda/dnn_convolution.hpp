#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

/// A convolution over images: [n, c, h, w] by [k, c / groups, r, s] to [n, k, out_h, out_w].
struct ImageConvolution {
  int n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0, out_h = 0, out_w = 0;
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, groups = 1;
  bool short_ones = false;  // bfloat16, with float sums

  friend auto operator<=>(const ImageConvolution&, const ImageConvolution&) = default;
  /// Whether equal padding on both sides gives this output: cuDNN supports no other.
  bool symmetric() const {
    const auto out = [](int in, int pad, int kernel, int dilation, int stride) {
      return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    };
    return out(h, pad_h, r, dilation_h, stride_h) == out_h && out(w, pad_w, s, dilation_w, stride_w) == out_w;
  }
};

/// Convolutions by cuDNN, of 32-bit floats (with `tf32` rounded to TF32 for tensor cores) or bfloat16. Only
/// deterministic algorithms are used, since outputs must be the same bits on every placement. If there is none for a
/// shape, calls return false and the caller computes otherwise. Unlike cuBLAS, cuDNN's older API cannot be told the SMs
/// of a part of a GPU: it chooses as for the whole GPU.
class DnnConvolution {
 public:
  /// Returns memory for the duration of one call.
  using Workspace = std::function<void*(std::size_t bytes)>;

  /// Null without cuDNN. Throws CudaError.
  static std::unique_ptr<DnnConvolution> make(const Tables& tables, Workspace workspace, bool tf32 = false);
  DnnConvolution(DnnConvolution&&) = delete;

  void use(Stream stream);
  void* handle() const { return handle_.get(); }
  // False: not supported, and nothing was done.
  bool forward(const ImageConvolution& shape, const void* x, const void* w, void* y);
  bool data_gradient(const ImageConvolution& shape, const void* w, const void* dy, void* dx);
  bool filter_gradient(const ImageConvolution& shape, const void* x, const void* dy, void* dw);

 private:
  enum class Pass { forward, data, filter };
  struct Prepared {
    Owned x, w, y, convolution;                           // descriptors
    std::optional<std::vector<DnnAlgorithm>> choices[3];  // by pass, the fastest first
  };

  DnnConvolution(const Tables& tables, Workspace workspace, bool tf32)
      : tables_(tables), workspace_(std::move(workspace)), tf32_(tf32) {}
  int math(const ImageConvolution& shape) const;
  void check(Status status, const char* call) const;
  Prepared& prepared(const ImageConvolution& shape);
  bool run(Pass pass, const ImageConvolution& shape, const void* a, const void* b, void* result);

  const Tables& tables_;
  Workspace workspace_;
  const bool tf32_;
  Owned handle_;
  std::map<ImageConvolution, Prepared> prepared_;
};

}  // namespace trainyard::cuda
