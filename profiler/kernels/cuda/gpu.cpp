#include "profiler/kernels/cuda/gpu.hpp"

#include <algorithm>

#include "profiler/kernels/cuda/kernels.hpp"
#include "profiler/kernels/strides.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cuda {

namespace {
// The size that cuBLAS recommends for Hopper. Allocated here, so that a captured step allocates nothing.
constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20;
}  // namespace

Divisor::Divisor(std::uint64_t number) : by(number) {
  while (shift < 31 && (std::uint64_t{1} << shift) < number) ++shift;
  const std::uint64_t power = std::uint64_t{1} << shift;
  // Divisors above 2^31: quotients of n below 2^31 are 0.
  magic = number > power
              ? 0
              : static_cast<std::uint32_t>(((power - number) << 32) / std::max<std::uint64_t>(1, number) + 1);
}

Strides strides_over(const Shape& shape, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                     const std::vector<std::int64_t>& c) {
  Strides strides;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto size = static_cast<std::uint64_t>(shape[i]);
    if (size == 1) continue;
    const std::int64_t steps[] = {i < a.size() ? a[i] : 0, i < b.size() ? b[i] : 0, i < c.size() ? c[i] : 0};
    std::int64_t* const lists[] = {strides.a, strides.b, strides.c};
    const auto joins = [&](std::size_t k) { return lists[k][strides.rank - 1] == steps[k] * shape[i]; };
    if (strides.rank > 0 && joins(0) && joins(1) && joins(2)) {
      strides.size[strides.rank - 1] = strides.size[strides.rank - 1].by * size;
    } else {
      if (strides.rank == 8) refuse("unsupported-op", "the cuda backend supports arrays of at most 8 dimensions", "");
      strides.size[strides.rank++] = size;
    }
    for (std::size_t k = 0; k < 3; ++k) lists[k][strides.rank - 1] = steps[k];
  }
  return strides;
}

FoldParts::FoldParts(std::uint64_t many, std::uint64_t results, bool by_blocks) {
  constexpr std::uint64_t kThreads = std::uint64_t{1} << 17, kBlocks = 2048, kLeast = 16, kLeastOfBlock = 1024;
  const std::uint64_t most = std::max<std::uint64_t>(1, many / (by_blocks ? kLeastOfBlock : kLeast));
  const std::uint64_t wanted = std::clamp<std::uint64_t>((by_blocks ? kBlocks : kThreads) / results, 1, most);
  each = std::max<std::uint64_t>(1, (many + wanted - 1) / wanted);
  count = std::max<std::uint64_t>(1, (many + each - 1) / each);
}

Gpu::Gpu(const Tables& tables, int gpu, unsigned sms, bool tf32) : tables_(tables), gpu_(gpu), tf32_(tf32) {
  if (!tables.blas.cublasCreate_v2) throw MissingError("cuBLAS was not found", "install the CUDA 13 toolkit");
  kernels_ = load_kernels(tables, gpu);
  for (const char* name : kernel_names())
    check(tables.driver.cuLibraryGetKernel(&functions_[name], kernels_.get(), name), "cuLibraryGetKernel");
  void* blas = nullptr;
  check(tables.blas.cublasCreate_v2(&blas), "cublasCreate");
  blas_ = Owned{blas, {tables.blas.cublasDestroy_v2}};
  if (sms > 0) check(tables.blas.cublasSetSmCountTarget(blas, static_cast<int>(sms)), "cublasSetSmCountTarget");
  blas_memory_ = allocate(kBlasWorkspace / sizeof(float));
  own_ = make_stream(tables.runtime);
  stream_ = own_.get();
  dnn_ = DnnConvolution::make(
      tables, [this](std::size_t bytes) { return static_cast<void*>(scratch((bytes + 3) / sizeof(float))); }, tf32);
  if (!dnn_) return;
  dnn_batch_norm_ = DnnBatchNorm::make(tables, dnn_->handle());
  dnn_pool_ = DnnPool::make(tables, dnn_->handle());
  dnn_softmax_ = DnnSoftmax::make(tables, dnn_->handle());
}

Gpu::~Gpu() { tables_.runtime.cudaSetDevice(gpu_); }

void Gpu::check(Status status, const char* call) const { cuda::check(tables_.runtime, status, call); }

void Gpu::begin(Stream stream) {
  if (stream != stream_) {
    check(tables_.blas.cublasSetStream_v2(blas_.get(), stream), "cublasSetStream");
    check(tables_.blas.cublasSetWorkspace_v2(blas_.get(), blas_memory_.get(), kBlasWorkspace), "cublasSetWorkspace");
    if (dnn_) dnn_->use(stream);
  }
  stream_ = stream;
  used_ = launches_ = 0;
}

void Gpu::launch(const char* kernel, std::uint64_t blocks, void** arguments) {
  constexpr unsigned kThreads = 256;
  const auto grid = static_cast<unsigned>(std::min<std::uint64_t>(blocks, 0x7fffffff));
  ++launches_;
  check(tables_.driver.cuLaunchKernel(functions_.at(kernel), grid, 1, 1, kThreads, 1, 1,
                                      kThreads * static_cast<unsigned>(sizeof(float)), stream_, arguments, nullptr),
        kernel);
}

void Gpu::multiply(bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Reals a,
                   Reals b, float beta, Reals c) {
  if (m == 0 || n == 0) return;
  ++launches_;
  const auto small = [](std::int64_t x) { return static_cast<int>(x); };
  // cuBLAS is column-major: it sees the transposes, and (A B)^T is B^T A^T.
  const int ld_b = small(turn_b ? k : n), ld_a = small(turn_a ? m : k);
  const bool floats = !a.is_short && !b.is_short && !c.is_short;
  if (floats && !tf32_) {
    check(tables_.blas.cublasSgemm_v2(blas_.get(), turn_b ? 1 : 0, turn_a ? 1 : 0, small(n), small(m), small(k), &alpha,
                                      b.floats(), ld_b, a.floats(), ld_a, &beta, c.floats(), small(n)),
          "cublasSgemm");
    return;
  }
  // cuBLAS takes a and b of one type, and gives floats for floats.
  const auto shortened = [&](Reals& x, std::int64_t count) {
    const Reals to = scratch(static_cast<std::size_t>(count), Reals{nullptr, true});
    scale_add(to, x, 1, 0, static_cast<std::size_t>(count));
    x = to;
  };
  if (!a.is_short && !floats) shortened(a, m * k);
  if (!b.is_short && !floats) shortened(b, k * n);
  const auto type = [](const Reals& x) { return x.is_short ? kBlasShort : kBlasFloat; };
  check(tables_.blas.cublasGemmEx(blas_.get(), turn_b ? 1 : 0, turn_a ? 1 : 0, small(n), small(m), small(k), &alpha,
                                  b.at, type(b), ld_b, a.at, type(a), ld_a, &beta, c.at, type(c), small(n),
                                  floats && tf32_ ? kBlasTf32Sums : kBlasFloatSums, kBlasDefault),
        "cublasGemmEx");
}

void Gpu::multiply_each(std::int64_t count, bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k,
                        Reals a, std::int64_t step_a, Reals b, std::int64_t step_b, Reals c, std::int64_t step_c) {
  if (count == 0 || m == 0 || n == 0) return;
  if (a.is_short != b.is_short || (!a.is_short && c.is_short)) {  // operands that need a conversion each
    for (std::int64_t i = 0; i < count; ++i)
      multiply(turn_a, turn_b, m, n, k, 1, a + i * step_a, b + i * step_b, 0, c + i * step_c);
    return;
  }
  ++launches_;
  const auto small = [](std::int64_t x) { return static_cast<int>(x); };
  const auto type = [](const Reals& x) { return x.is_short ? kBlasShort : kBlasFloat; };
  const float one = 1, zero = 0;
  check(tables_.blas.cublasGemmStridedBatchedEx(
            blas_.get(), turn_b ? 1 : 0, turn_a ? 1 : 0, small(n), small(m), small(k), &one, b.at, type(b),
            small(turn_b ? k : n), step_b, a.at, type(a), small(turn_a ? m : k), step_a, &zero, c.at, type(c), small(n),
            step_c, small(count), tf32_ && !a.is_short ? kBlasTf32Sums : kBlasFloatSums, kBlasDefault),
        "cublasGemmStridedBatchedEx");
}

float* Gpu::scratch(std::size_t floats) {
  if (used_ == blocks_.size()) blocks_.emplace_back();
  Block& block = blocks_[used_++];
  if (block.floats < floats) {  // in the first steps alone: freeing waits for running work
    if (block.data) check(tables_.runtime.cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    bytes_ -= block.floats * sizeof(float);
    block = {};
    block = {allocate(floats), floats};
  }
  return static_cast<float*>(block.data.get());
}

float* Gpu::keep(std::size_t floats) {
  check(tables_.runtime.cudaSetDevice(gpu_), "cudaSetDevice");
  kept_.push_back(allocate(std::max<std::size_t>(1, floats)));
  return static_cast<float*>(kept_.back().get());
}

Owned Gpu::allocate(std::size_t floats) {
  try {
    Owned memory = device_memory(tables_.runtime, floats * sizeof(float));
    bytes_ += floats * sizeof(float);
    return memory;
  } catch (const CudaError& error) {
    if (error.status() != kOutOfMemory) throw;
    throw MissingError("GPU " + std::to_string(gpu_) + " has too little memory left", "run a smaller batch");
  }
}

void Gpu::fold(Fold kind, const Reals& from, const Shape& large, const Reals& to, const Shape& small, float scale) {
  Shape kept, over;
  std::vector<std::int64_t> kept_steps, over_steps;
  std::int64_t step = 1;
  for (std::size_t i = large.size(); i-- > 0;) {
    const bool is_over = small[i] == 1;
    (is_over ? over : kept).insert((is_over ? over : kept).begin(), large[i]);
    (is_over ? over_steps : kept_steps).insert((is_over ? over_steps : kept_steps).begin(), step);
    step *= large[i];
  }
  const Strides results = strides_over(kept, kept_steps), summed = strides_over(over, over_steps);
  const auto count = static_cast<std::uint64_t>(elements(kept)), many = static_cast<std::uint64_t>(elements(over));
  if (count == 0) return;
  const bool lines = summed.rank > 0 && summed.a[summed.rank - 1] == 1 && many >= 128;
  const auto [each_part, parts] = FoldParts{many, count, lines};
  const Reals first = parts > 1 ? Reals{scratch(parts * count)} : to;
  const float first_scale = parts > 1 ? 1.0F : scale;
  const auto code = static_cast<std::uint64_t>(kind);
  if (lines)
    rows("reduce_lines", parts * count, first, from, results, summed, many, code, first_scale, each_part,
         Divisor{count});
  else
    each("reduce", parts * count, first, from, results, summed, many, code, first_scale, each_part, Divisor{count});
  if (parts == 1) return;
  const auto rest = static_cast<std::uint64_t>(kind == Fold::squares ? Fold::sum : kind);
  each("reduce", count, to, first, strides_over({static_cast<std::int64_t>(count)}, {1}),
       strides_over({static_cast<std::int64_t>(parts)}, {static_cast<std::int64_t>(count)}), parts, rest, scale, parts,
       Divisor{count});
}

void Gpu::sum_to_shape(const Reals& from, const Shape& large, const Array& to) {
  if (*to.shape == large) return scale_add(to.data, from, 1.0F, 0.0F, to.size());
  Shape small = *to.shape;
  small.insert(small.begin(), large.size() - small.size(), 1);
  fold(Fold::sum, from, large, to.data, small);
}

void Gpu::gather(const Reals& to, const Reals& from, const Shape& shape, const std::vector<std::int64_t>& strides,
                 std::int64_t offset) {
  each("gather_strided", static_cast<std::uint64_t>(elements(shape)), to, from, strides_over(shape, strides), offset);
}

void Gpu::scatter(const Reals& to, const Reals& from, const Shape& shape, const std::vector<std::int64_t>& strides,
                  std::int64_t offset, float keep) {
  each("scatter_strided", static_cast<std::uint64_t>(elements(shape)), to, from, strides_over(shape, strides), offset,
       keep);
}

void Gpu::copy_in(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(tables_.runtime.cudaSetDevice(gpu_), "cudaSetDevice");
  check(tables_.runtime.cudaMemcpyAsync(to, from, bytes, host_to_device, own_.get()), "cudaMemcpyAsync");
  check(tables_.runtime.cudaStreamSynchronize(own_.get()), "cudaStreamSynchronize");
}

void Gpu::copy_out(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(tables_.runtime.cudaSetDevice(gpu_), "cudaSetDevice");
  check(tables_.runtime.cudaMemcpyAsync(to, from, bytes, device_to_host, own_.get()), "cudaMemcpyAsync");
  check(tables_.runtime.cudaStreamSynchronize(own_.get()), "cudaStreamSynchronize");
}

}  // namespace trainyard::cuda
