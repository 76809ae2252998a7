#include "profiler/cuda/ops/gpu.hpp"

#include <algorithm>

#include "profiler/cpu/broadcast.hpp"
#include "profiler/cuda/kernels.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cuda {

Strides strides_over(const Shape& shape, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                     const std::vector<std::int64_t>& c) {
  if (shape.size() > 8)
    throw InputError(
        Finding{.code = "unsupported-op", .message = "the cuda backend has arrays of at most 8 dimensions"});
  Strides strides;
  strides.rank = shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    strides.size[i] = static_cast<std::uint64_t>(shape[i]);
    strides.a[i] = i < a.size() ? a[i] : 0;
    strides.b[i] = i < b.size() ? b[i] : 0;
    strides.c[i] = i < c.size() ? c[i] : 0;
  }
  return strides;
}

Gpu::Gpu(const Tables& tables, int gpu) : tables_(tables), gpu_(gpu) {
  if (!tables.nvrtc.nvrtcCreateProgram) throw MissingError("NVRTC is not there", "install the CUDA 13 toolkit");
  if (!tables.blas.cublasCreate_v2) throw MissingError("cuBLAS is not there", "install the CUDA 13 toolkit");
  try {
    make();
  } catch (...) {
    release();
    throw;
  }
}

Gpu::~Gpu() { release(); }

void Gpu::make() {
  const Tables& tables = tables_;
  check(tables.runtime.cudaSetDevice(gpu_), "cudaSetDevice");
  int major = 0, minor = 0;
  check(tables.runtime.cudaDeviceGetAttribute(&major, capability_major, gpu_), "cudaDeviceGetAttribute");
  check(tables.runtime.cudaDeviceGetAttribute(&minor, capability_minor, gpu_), "cudaDeviceGetAttribute");
  const std::string code = compile_kernels(tables.nvrtc, "sm_" + std::to_string(major) + std::to_string(minor));
  check(tables.driver.cuModuleLoadData(&module_, code.data()), "cuModuleLoadData");
  for (const char* name : kernel_names())
    check(tables.driver.cuModuleGetFunction(&functions_[name], module_, name), "cuModuleGetFunction");
  check(tables.blas.cublasCreate_v2(&blas_), "cublasCreate");
  check(tables.runtime.cudaStreamCreateWithFlags(&own_, kNonBlocking), "cudaStreamCreateWithFlags");
  stream_ = own_;
  dnn_ = DnnConvolution::make(
      tables, [this](std::size_t bytes) { return static_cast<void*>(scratch((bytes + 3) / sizeof(float))); });
}

void Gpu::release() {
  tables_.runtime.cudaSetDevice(gpu_);
  if (own_) {
    tables_.runtime.cudaStreamSynchronize(own_);
    tables_.runtime.cudaStreamDestroy(own_);
  }
  for (const Block& block : blocks_)
    if (block.data) tables_.runtime.cudaFree(block.data);
  for (void* memory : kept_) tables_.runtime.cudaFree(memory);
  dnn_.reset();
  if (blas_) tables_.blas.cublasDestroy_v2(blas_);
}

void Gpu::check(Status status, const char* call) const {
  if (status == kOutOfMemory && std::string_view{call} == "cudaMalloc")
    throw MissingError("GPU " + std::to_string(gpu_) + " has too little memory left", "run a smaller batch");
  if (status != 0) throw CudaError{call, status, tables_.runtime.cudaGetErrorString(status)};
}

void Gpu::begin(Stream stream) {
  if (stream != stream_) {
    check(tables_.blas.cublasSetStream_v2(blas_, stream), "cublasSetStream");
    if (dnn_) dnn_->use(stream);
  }
  stream_ = stream;
  used_ = 0;
}

void Gpu::launch(const char* kernel, std::uint64_t blocks, void** arguments) {
  constexpr unsigned kThreads = 256;
  const auto grid = static_cast<unsigned>(std::min<std::uint64_t>(blocks, 0x7fffffff));
  check(tables_.driver.cuLaunchKernel(functions_.at(kernel), grid, 1, 1, kThreads, 1, 1,
                                      kThreads * static_cast<unsigned>(sizeof(float)), stream_, arguments, nullptr),
        kernel);
}

void Gpu::multiply(bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Reals a,
                   Reals b, float beta, Reals c) {
  if (m == 0 || n == 0) return;
  const auto small = [](std::int64_t x) { return static_cast<int>(x); };
  // cuBLAS counts columns first: it sees the transposes, and (A B)^T is B^T A^T.
  const int ld_b = small(turn_b ? k : n), ld_a = small(turn_a ? m : k);
  if (!a.is_short && !b.is_short && !c.is_short) {
    check(tables_.blas.cublasSgemm_v2(blas_, turn_b ? 1 : 0, turn_a ? 1 : 0, small(n), small(m), small(k), &alpha,
                                      b.floats(), ld_b, a.floats(), ld_a, &beta, c.floats(), small(n)),
          "cublasSgemm");
    return;
  }
  // Both of one type; a product of floats goes to floats.
  const auto shortened = [&](Reals& x, std::int64_t count) {
    const Reals to = scratch(static_cast<std::size_t>(count), Reals{nullptr, true});
    scale_add(to, x, 1, 0, static_cast<std::size_t>(count));
    x = to;
  };
  if (!a.is_short) shortened(a, m * k);
  if (!b.is_short) shortened(b, k * n);
  const auto type = [](const Reals& x) { return x.is_short ? kBlasShort : kBlasFloat; };
  check(tables_.blas.cublasGemmEx(blas_, turn_b ? 1 : 0, turn_a ? 1 : 0, small(n), small(m), small(k), &alpha, b.at,
                                  type(b), ld_b, a.at, type(a), ld_a, &beta, c.at, type(c), small(n), kBlasFloatSums,
                                  kBlasDefault),
        "cublasGemmEx");
}

float* Gpu::scratch(std::size_t floats) {
  if (used_ == blocks_.size()) blocks_.emplace_back();
  Block& block = blocks_[used_++];
  if (block.floats < floats) {  // in the first steps alone: frees wait for what runs
    if (block.data) check(tables_.runtime.cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    if (block.data) check(tables_.runtime.cudaFree(block.data), "cudaFree");
    block = {};
    void* memory = nullptr;
    check(tables_.runtime.cudaMalloc(&memory, floats * sizeof(float)), "cudaMalloc");
    block = {static_cast<float*>(memory), floats};
  }
  return block.data;
}

float* Gpu::keep(std::size_t floats) {
  void* memory = nullptr;
  check(tables_.runtime.cudaSetDevice(gpu_), "cudaSetDevice");
  check(tables_.runtime.cudaMalloc(&memory, std::max<std::size_t>(1, floats) * sizeof(float)), "cudaMalloc");
  kept_.push_back(memory);
  return static_cast<float*>(memory);
}

void Gpu::sum_to_shape(const Reals& from, const Shape& large, const Array& to) {
  if (*to.shape == large) return scale_add(to.data, from, 1.0F, 0.0F, to.size());
  // Kept dimensions step through both; the others are summed over.
  const std::vector<std::int64_t> small = cpu::broadcast_strides(*to.shape, large);
  Shape kept, over;
  std::vector<std::int64_t> kept_strides, over_strides;
  std::int64_t step = 1;
  for (std::size_t i = large.size(); i-- > 0;) {
    const bool is_kept = small[i] != 0;
    (is_kept ? kept : over).insert((is_kept ? kept : over).begin(), large[i]);
    (is_kept ? kept_strides : over_strides).insert((is_kept ? kept_strides : over_strides).begin(), step);
    step *= large[i];
  }
  each("reduce", to.size(), to.data, from, strides_over(kept, kept_strides), strides_over(over, over_strides),
       static_cast<std::uint64_t>(elements(over)), std::uint64_t{0});
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
  check(tables_.runtime.cudaMemcpyAsync(to, from, bytes, host_to_device, own_), "cudaMemcpyAsync");
  check(tables_.runtime.cudaStreamSynchronize(own_), "cudaStreamSynchronize");
}

void Gpu::copy_out(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(tables_.runtime.cudaSetDevice(gpu_), "cudaSetDevice");
  check(tables_.runtime.cudaMemcpyAsync(to, from, bytes, device_to_host, own_), "cudaMemcpyAsync");
  check(tables_.runtime.cudaStreamSynchronize(own_), "cudaStreamSynchronize");
}

}  // namespace trainyard::cuda
