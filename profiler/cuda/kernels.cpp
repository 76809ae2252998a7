#include "profiler/cuda/kernels.hpp"

#include <array>
#include <stdexcept>

namespace trainyard::cuda {
namespace {

constexpr std::array kNames{
    "delay_ns",   "sweep_l2",        "copy_by_sms",  "relu",           "relu_grad",    "gelu",
    "gelu_grad",  "sigmoid",         "sigmoid_grad", "tanh_of",        "tanh_grad",    "add",
    "multiply",   "add_bias",        "sum_rows",     "softmax_rows",   "softmax_grad", "cross_entropy",
    "layer_norm", "layer_norm_grad", "embedding",    "embedding_grad", "dropout",      "transpose",
    "sgd_update", "momentum_update", "adam_update"};

constexpr const char* kSource = R"cuda(
typedef unsigned long long u64;
typedef unsigned int u32;
#define EACH(i, n) for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (n); i += (u64)gridDim.x * blockDim.x)

// --- what measuring needs ---
extern "C" __global__ void delay_ns(u64 ns) {
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < ns);
}
extern "C" __global__ void sweep_l2(uint4* p, u64 n) { EACH(i, n) { uint4 v = p[i]; v.x ^= 1; p[i] = v; } }
extern "C" __global__ void copy_by_sms(uint4* to, const uint4* from, u64 n) { EACH(i, n) to[i] = from[i]; }

// --- element-wise ---
extern "C" __global__ void relu(float* y, const float* x, u64 n) { EACH(i, n) y[i] = x[i] > 0 ? x[i] : 0; }
extern "C" __global__ void relu_grad(float* dx, const float* dy, const float* y, u64 n) { EACH(i, n) dx[i] = y[i] > 0 ? dy[i] : 0; }
extern "C" __global__ void gelu(float* y, const float* x, u64 n) { EACH(i, n) y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f)); }
extern "C" __global__ void gelu_grad(float* dx, const float* dy, const float* x, u64 n) {
  EACH(i, n) {
    const float v = x[i];
    dx[i] = dy[i] * (0.5f * (1 + erff(v * 0.70710678f)) + v * 0.39894228f * expf(-0.5f * v * v));
  }
}
extern "C" __global__ void sigmoid(float* y, const float* x, u64 n) { EACH(i, n) y[i] = 1 / (1 + expf(-x[i])); }
extern "C" __global__ void sigmoid_grad(float* dx, const float* dy, const float* y, u64 n) { EACH(i, n) dx[i] = dy[i] * y[i] * (1 - y[i]); }
extern "C" __global__ void tanh_of(float* y, const float* x, u64 n) { EACH(i, n) y[i] = tanhf(x[i]); }
extern "C" __global__ void tanh_grad(float* dx, const float* dy, const float* y, u64 n) { EACH(i, n) dx[i] = dy[i] * (1 - y[i] * y[i]); }
extern "C" __global__ void add(float* z, const float* x, const float* y, u64 n) { EACH(i, n) z[i] = x[i] + y[i]; }
extern "C" __global__ void multiply(float* z, const float* x, const float* y, u64 n) { EACH(i, n) z[i] = x[i] * y[i]; }
extern "C" __global__ void add_bias(float* y, const float* x, const float* b, u64 rows, u64 columns) {
  EACH(i, rows * columns) y[i] = x[i] + b[i % columns];
}
extern "C" __global__ void sum_rows(float* b, const float* x, u64 rows, u64 columns) {
  EACH(c, columns) { float s = 0; for (u64 r = 0; r < rows; ++r) s += x[r * columns + c]; b[c] = s; }
}

// --- one block for each row ---
__device__ float block_sum(float v, float* shared) {
  shared[threadIdx.x] = v;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  const float s = shared[0];
  __syncthreads();
  return s;
}
__device__ float block_max(float v, float* shared) {
  shared[threadIdx.x] = v;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const float s = shared[0];
  __syncthreads();
  return s;
}
extern "C" __global__ void softmax_rows(float* y, const float* x, u64 columns) {
  extern __shared__ float shared[];
  const float* in = x + blockIdx.x * columns;
  float* out = y + blockIdx.x * columns;
  float largest = -3.4e38f, sum = 0;
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) largest = fmaxf(largest, in[c]);
  largest = block_max(largest, shared);
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(in[c] - largest);
  sum = block_sum(sum, shared);
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) out[c] = expf(in[c] - largest) / sum;
}
extern "C" __global__ void softmax_grad(float* dx, const float* dy, const float* y, u64 columns) {
  extern __shared__ float shared[];
  const u64 row = blockIdx.x * columns;
  float dot = 0;
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) dot += dy[row + c] * y[row + c];
  dot = block_sum(dot, shared);
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) dx[row + c] = y[row + c] * (dy[row + c] - dot);
}
// Loss of each row, and the gradient of their mean.
extern "C" __global__ void cross_entropy(float* loss, float* dx, const float* y, const int* label, u64 rows, u64 columns) {
  EACH(r, rows) {
    loss[r] = -logf(fmaxf(y[r * columns + label[r]], 1e-30f));
    for (u64 c = 0; c < columns; ++c) dx[r * columns + c] = (y[r * columns + c] - (c == label[r] ? 1 : 0)) / rows;
  }
}
extern "C" __global__ void layer_norm(float* y, float* mean, float* scale, const float* x, const float* gain, const float* bias, u64 columns) {
  extern __shared__ float shared[];
  const u64 row = blockIdx.x * columns;
  float s = 0, q = 0;
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) s += x[row + c];
  const float m = block_sum(s, shared) / columns;
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) q += (x[row + c] - m) * (x[row + c] - m);
  const float r = rsqrtf(block_sum(q, shared) / columns + 1e-5f);
  if (threadIdx.x == 0) { mean[blockIdx.x] = m; scale[blockIdx.x] = r; }
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) y[row + c] = (x[row + c] - m) * r * gain[c] + bias[c];
}
extern "C" __global__ void layer_norm_grad(float* dx, const float* dy, const float* x, const float* mean, const float* scale, const float* gain, u64 columns) {
  extern __shared__ float shared[];
  const u64 row = blockIdx.x * columns;
  const float m = mean[blockIdx.x], r = scale[blockIdx.x];
  float a = 0, b = 0;
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x) {
    const float g = dy[row + c] * gain[c];
    a += g;
    b += g * (x[row + c] - m) * r;
  }
  a = block_sum(a, shared) / columns;
  b = block_sum(b, shared) / columns;
  for (u64 c = threadIdx.x; c < columns; c += blockDim.x)
    dx[row + c] = r * (dy[row + c] * gain[c] - a - (x[row + c] - m) * r * b);
}

// --- lookups and moves ---
extern "C" __global__ void embedding(float* y, const float* table, const int* id, u64 rows, u64 columns) {
  EACH(i, rows * columns) y[i] = table[id[i / columns] * columns + i % columns];
}
extern "C" __global__ void embedding_grad(float* dtable, const float* dy, const int* id, u64 rows, u64 columns) {
  EACH(i, rows * columns) atomicAdd(dtable + id[i / columns] * columns + i % columns, dy[i]);
}
// A hash of (seed, place) decides: the gradient recomputes the mask.
extern "C" __global__ void dropout(float* y, const float* x, float keep, u64 seed, u64 n) {
  EACH(i, n) {
    u64 h = (seed + i) * 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    y[i] = (h >> 40) * 0x1p-24f < keep ? x[i] / keep : 0;
  }
}
extern "C" __global__ void transpose(float* y, const float* x, u64 rows, u64 columns) {
  EACH(i, rows * columns) y[(i % columns) * rows + i / columns] = x[i];
}

// --- updates ---
extern "C" __global__ void sgd_update(float* w, const float* g, float rate, u64 n) { EACH(i, n) w[i] -= rate * g[i]; }
extern "C" __global__ void momentum_update(float* w, float* v, const float* g, float rate, float decay, u64 n) {
  EACH(i, n) { v[i] = decay * v[i] + g[i]; w[i] -= rate * v[i]; }
}
extern "C" __global__ void adam_update(float* w, float* m, float* v, const float* g, float rate, float b1, float b2, float c1, float c2, u64 n) {
  EACH(i, n) {
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    w[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
  }
}
)cuda";

}  // namespace

const char* kernel_source() { return kSource; }
std::span<const char* const> kernel_names() { return {kNames.data(), kNames.size()}; }

std::string compile_kernels(const Nvrtc& nvrtc, const std::string& architecture) {
  void* program = nullptr;
  const auto check = [&](Status status, const char* call) {
    if (status != 0) throw std::runtime_error(std::string{call} + ": " + nvrtc.nvrtcGetErrorString(status));
  };
  check(nvrtc.nvrtcCreateProgram(&program, kSource, "trainyard_kernels.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  struct Guard {
    const Nvrtc& nvrtc;
    void*& program;
    ~Guard() { nvrtc.nvrtcDestroyProgram(&program); }
  } guard{nvrtc, program};
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++17"};
  if (const Status status = nvrtc.nvrtcCompileProgram(program, 2, options); status != 0) {
    std::size_t size = 0;
    nvrtc.nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    if (size > 0) nvrtc.nvrtcGetProgramLog(program, log.data());
    throw std::runtime_error("the kernels do not compile for " + architecture + ": " +
                             nvrtc.nvrtcGetErrorString(status) + "\n" + log);
  }
  std::size_t size = 0;
  check(nvrtc.nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize");
  std::string code(size, '\0');
  check(nvrtc.nvrtcGetCUBIN(program, code.data()), "nvrtcGetCUBIN");
  return code;
}

}  // namespace trainyard::cuda
