#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "profiler/cpu/arrays.hpp"
#include "profiler/cuda/executor.hpp"
#include "profiler/cuda/ops/dnn_convolution.hpp"

namespace trainyard::cuda {

/// Strides of up to three operands over the elements of an array, as the kernels take them.
struct Strides {
  std::uint64_t rank = 0;
  std::uint64_t size[8] = {};
  std::int64_t a[8] = {}, b[8] = {}, c[8] = {};
};
/// Throws InputError ("unsupported-op") beyond 8 dimensions.
Strides strides_over(const Shape& shape, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b = {},
                     const std::vector<std::int64_t>& c = {});

/// What one device needs to launch ops: the kernels, a cuBLAS handle, and memory for arrays that live as long as one
/// op. All work of a device goes to one stream, so that the memory of one op is free for the next one without waiting.
class Gpu {
 public:
  /// Compiles the kernels for the GPU. Throws MissingError without NVRTC or cuBLAS, CudaError.
  Gpu(const Tables& tables, int gpu);
  ~Gpu();
  Gpu(Gpu&&) = delete;

  /// The next op, on this stream.
  void begin(Stream stream);

  /// One of the kernels that loop over `count` elements; the count goes last.
  template <class... Arguments>
  void each(const char* kernel, std::uint64_t count, Arguments... arguments) {
    if (count == 0) return;
    void* list[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., &count};
    launch(kernel, (count + 255) / 256, list);
  }
  /// The same for a kernel whose count is among its arguments.
  template <class... Arguments>
  void channels(const char* kernel, std::uint64_t count, Arguments... arguments) {
    void* list[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    if (count > 0) launch(kernel, (count + 255) / 256, list);
  }
  /// One of the kernels with a block for each row.
  template <class... Arguments>
  void rows(const char* kernel, std::uint64_t count, Arguments... arguments) {
    void* list[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    if (count > 0) launch(kernel, count, list);
  }

  /// c = alpha a b + beta c, row-major, [m, k] [k, n], each transposed first where asked for.
  void multiply(bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                const float* b, float beta, float* c);

  /// cuDNN's convolutions, on this op's stream; null where cuDNN is not there.
  DnnConvolution* dnn() { return dnn_.get(); }

  float* scratch(std::size_t floats);
  void fill(float* to, float value, std::size_t count) { each("fill", count, to, value); }
  /// y = alpha x + beta y.
  void scale_add(float* y, const float* x, float alpha, float beta, std::size_t count) {
    each("scale_add", count, y, x, alpha, beta);
  }
  /// Sums what `to` was broadcast to.
  void sum_to_shape(const float* from, const Shape& large, const cpu::Array& to);
  /// Elements of `from` over `shape` at these strides.
  void gather(float* to, const float* from, const Shape& shape, const std::vector<std::int64_t>& strides,
              std::int64_t offset);
  /// And back: overwrites (keep 0) or adds (keep 1).
  void scatter(float* to, const float* from, const Shape& shape, const std::vector<std::int64_t>& strides,
               std::int64_t offset, float keep);

  void copy_in(void* to, const void* from, std::size_t bytes);   // from the host
  void copy_out(void* to, const void* from, std::size_t bytes);  // to the host; waits
  /// Memory that stays until the end.
  float* keep(std::size_t floats);

 private:
  void make();
  void release();
  void launch(const char* kernel, std::uint64_t blocks, void** arguments);
  void check(Status status, const char* call) const;

  struct Block {
    float* data = nullptr;
    std::size_t floats = 0;
  };
  const Tables& tables_;
  int gpu_;
  void* module_ = nullptr;
  void* blas_ = nullptr;
  std::unique_ptr<DnnConvolution> dnn_;
  Stream stream_ = nullptr, own_ = nullptr;
  std::map<std::string, void*> functions_;
  std::vector<Block> blocks_;
  std::vector<void*> kept_;
  std::size_t used_ = 0;
};

}  // namespace trainyard::cuda
