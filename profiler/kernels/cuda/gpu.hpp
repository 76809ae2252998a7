#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "profiler/kernels/arrays.hpp"
#include "profiler/kernels/cuda/dnn_batch_norm.hpp"
#include "profiler/kernels/cuda/dnn_convolution.hpp"
#include "profiler/kernels/cuda/dnn_pool.hpp"
#include "profiler/kernels/cuda/dnn_softmax.hpp"
#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

using namespace kernels;

/// Numbers in a GPU's memory, 32-bit floats or bfloat16, in the layout that kernels take (In, Out).
struct Reals {
  void* at = nullptr;
  std::uint64_t is_short = 0;

  Reals() = default;
  Reals(float* whole) : at(whole) {}  // NOLINT: implicit, since a pointer denotes a float array
  Reals(void* where, bool short_ones) : at(where), is_short(short_ones ? 1 : 0) {}
  explicit operator bool() const { return at != nullptr; }
  std::size_t width() const { return is_short ? 2 : sizeof(float); }
  float* floats() const { return static_cast<float*>(at); }  // if of 32 bits
  friend Reals operator+(const Reals& from, std::int64_t elements) {
    return {static_cast<std::byte*>(from.at) + elements * static_cast<std::int64_t>(from.width()), from.is_short != 0};
  }
};
using Array = ArrayOf<Reals>;
using OpArrays = OpArraysOf<Array>;

/// A divisor for kernels: for n below 2^31 the quotient is ((n magic >> 32) + n) >> shift (Granlund and Montgomery,
/// Division by invariant integers using multiplication, PLDI 1994).
struct Divisor {
  std::uint64_t by = 1;
  std::uint32_t magic = 1, shift = 0;

  Divisor() = default;
  Divisor(std::uint64_t number);  // NOLINT: implicit, since a number denotes a divisor
};

/// Strides of up to three operands over the elements of an array, in the layout that kernels take.
struct Strides {
  std::uint64_t rank = 0;
  Divisor size[8] = {};
  std::int64_t a[8] = {}, b[8] = {}, c[8] = {};
};
/// Merges dimensions that are contiguous in all three operands. Throws InputError ("unsupported-op") beyond 8
/// dimensions.
Strides strides_over(const Shape& shape, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b = {},
                     const std::vector<std::int64_t>& c = {});

/// Parts in which threads, or blocks, fold `many` elements for each result: enough of them to fill a GPU, each with
/// enough work. At least one part, of at least one element.
struct FoldParts {
  std::uint64_t each, count;

  FoldParts(std::uint64_t many, std::uint64_t results, bool by_blocks);
};

/// A device ready to launch ops: kernels, a cuBLAS handle, and memory for arrays that live as long as one op. All work
/// of a device goes to one stream, so that the next op can reuse the memory of an op without waiting.
class Gpu {
 public:
  /// `sms`: SMs of the part of the GPU that it is for; 0: all. `tf32`: products and convolutions of 32-bit floats may
  /// round their operands to TF32, 10 bits of mantissa, for tensor cores. Throws as load_kernels(), and MissingError
  /// without cuBLAS.
  Gpu(const Tables& tables, int gpu, unsigned sms = 0, bool tf32 = false);
  ~Gpu();
  Gpu(Gpu&&) = delete;

  /// Begins the next op, on this stream.
  void begin(Stream stream);
  /// Launches since begin().
  std::size_t launches() const { return launches_; }

  /// Launches a kernel that loops over `count` elements; the count is its last argument.
  template <class... Arguments>
  void each(const char* kernel, std::uint64_t count, const Arguments&... arguments) {
    if (count > 0) start(kernel, (count + 255) / 256, as_argument(arguments)..., count);
  }
  /// Launches a kernel with one block per row.
  template <class... Arguments>
  void rows(const char* kernel, std::uint64_t count, const Arguments&... arguments) {
    if (count > 0) start(kernel, count, as_argument(arguments)...);
  }

  /// c = alpha a b + beta c, row-major, [m, k] x [k, n], with a and b transposed first if asked for. Sums of bfloat16
  /// products are 32-bit floats. If only one of a and b is bfloat16, the other is rounded to it first.
  void multiply(bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Reals a, Reals b,
                float beta, Reals c);

  /// `count` products c = a b in one launch. Steps between operands and between results are in elements; 0 repeats one.
  void multiply_each(std::int64_t count, bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Reals a, std::int64_t step_a, Reals b, std::int64_t step_b, Reals c, std::int64_t step_c);

  bool has_dnn() const { return dnn_ != nullptr; }
  // cuDNN's operations on this op's stream; null if not available. Each call counts the launches of one operation.
  DnnConvolution* dnn() { return called(dnn_, 3); }
  DnnBatchNorm* dnn_batch_norm() { return called(dnn_batch_norm_, 2); }
  DnnPool* dnn_pool() { return called(dnn_pool_, 2); }
  DnnSoftmax* dnn_softmax() { return called(dnn_softmax_, 2); }

  float* scratch(std::size_t floats);
  /// `count` elements of the type of `like`.
  Reals scratch(std::size_t count, const Reals& like) {
    return {scratch(like.is_short ? (count + 1) / 2 : count), like.is_short != 0};
  }
  void fill(const Reals& to, float value, std::size_t count) { each("fill", count, to, value); }
  /// y = alpha x + beta y.
  void scale_add(const Reals& y, const Reals& x, float alpha, float beta, std::size_t count) {
    each("scale_add", count, y, x, alpha, beta);
  }
  enum class Fold : std::uint64_t { sum = 0, largest = 2, smallest = 3, squares = 5 };  // the kernels' codes
  /// Folds the elements of `from` over the dimensions of `large` that are 1 in `small`, times `scale`, into `to`. Only
  /// sizes determine the order of partial results: the same bits every time.
  void fold(Fold kind, const Reals& from, const Shape& large, const Reals& to, const Shape& small, float scale = 1);
  /// Sums over the dimensions to which `to` was broadcast.
  void sum_to_shape(const Reals& from, const Shape& large, const Array& to);
  /// Gathers elements of `from` over `shape` at these strides.
  void gather(const Reals& to, const Reals& from, const Shape& shape, const std::vector<std::int64_t>& strides,
              std::int64_t offset);
  /// Scatters elements of `from` to these positions of `to`: replaces (keep 0) or adds to (keep 1) its elements.
  void scatter(const Reals& to, const Reals& from, const Shape& shape, const std::vector<std::int64_t>& strides,
               std::int64_t offset, float keep);

  void copy_in(void* to, const void* from, std::size_t bytes);   // from the host
  void copy_out(void* to, const void* from, std::size_t bytes);  // to the host; waits
  /// GPU memory in use: kept, scratch and cuBLAS's.
  std::size_t bytes() const { return bytes_; }
  /// Memory that lives as long as this object.
  float* keep(std::size_t floats);
  Reals keep(std::size_t count, bool short_ones) { return {keep(short_ones ? (count + 1) / 2 : count), short_ones}; }

 private:
  static Reals as_argument(float* x) { return x; }
  static Reals as_argument(const float* x) { return const_cast<float*>(x); }
  template <class Argument>
  static const Argument& as_argument(const Argument& x) {
    return x;
  }
  template <class Dnn>
  Dnn* called(const std::unique_ptr<Dnn>& dnn, std::size_t launches) {
    launches_ += dnn ? launches : 0;
    return dnn.get();
  }
  template <class... Arguments>
  void start(const char* kernel, std::uint64_t blocks, const Arguments&... arguments) {
    void* list[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    launch(kernel, blocks, list);
  }
  Owned allocate(std::size_t floats);
  void launch(const char* kernel, std::uint64_t blocks, void** arguments);
  void check(Status status, const char* call) const;

  struct Block {
    Owned data;
    std::size_t floats = 0;
  };
  const Tables& tables_;
  int gpu_;
  bool tf32_;
  Owned kernels_;  // declared before the streams that run them
  std::map<std::string, void*> functions_;
  std::vector<Owned> kept_;
  std::vector<Block> blocks_;
  std::size_t used_ = 0, launches_ = 0, bytes_ = 0;
  Owned blas_memory_, blas_;
  std::unique_ptr<DnnConvolution> dnn_;
  std::unique_ptr<DnnBatchNorm> dnn_batch_norm_;  // on the handle of dnn_, as those below
  std::unique_ptr<DnnPool> dnn_pool_;
  std::unique_ptr<DnnSoftmax> dnn_softmax_;
  Owned own_;                // this object's stream
  Stream stream_ = nullptr;  // of the current op
};

}  // namespace trainyard::cuda
