#include "profiler/kernels/cuda/host_kernels.hpp"

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

// The CUDA kernels' own source, compiled for the host. Blocks run one after the other; a block has one thread, or
// several that run at once.
namespace {

using u64 = std::uint64_t;
using i64 = std::int64_t;
using u32 = std::uint32_t;
using u16 = std::uint16_t;
struct Three {
  u32 x = 0;
};
Three blockDim{1}, gridDim{1};
thread_local Three blockIdx, threadIdx;
float shared[1024];
std::barrier<>* block = nullptr;  // barrier of a block's threads, if it has several
void __syncthreads() {
  if (block) block->arrive_and_wait();
}

std::atomic<std::uint64_t> all_touched{0};
thread_local std::uint64_t touched = 0;

#define TOUCH(is_short) touched += (is_short) ? 2 : 4
#define KERNEL [[maybe_unused]] void
#define __device__ [[maybe_unused]]
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#include "profiler/kernels/cuda/kernels.cu"
// The include order matters.
#include "profiler/kernels/cuda/elementwise.cu"
#include "profiler/kernels/cuda/layers.cu"
#pragma GCC diagnostic pop

using Launch = std::function<void()>;

template <class... Arguments, std::size_t... Is>
Launch with_arguments(void (*kernel)(Arguments...), unsigned blocks, void** arguments, unsigned threads,
                      std::index_sequence<Is...>) {
  const std::tuple<Arguments...> copied{*static_cast<Arguments*>(arguments[Is])...};
  return [=] {
    gridDim.x = blocks;
    blockDim.x = threads;
    const auto run = [&](unsigned thread) {
      threadIdx.x = thread;
      touched = 0;  // bytes of matrix products on this thread
      for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        std::apply(kernel, copied);
        __syncthreads();
      }
      all_touched += std::exchange(touched, 0);
    };
    if (threads == 1) return run(0);
    std::barrier<> all{threads};
    block = &all;
    {
      std::vector<std::jthread> others;
      for (unsigned thread = 0; thread < threads; ++thread) others.emplace_back(run, thread);
    }
    block = nullptr;
  };
}

using Maker = std::function<Launch(unsigned, void**, unsigned)>;

template <class... Arguments>
Maker maker(void (*kernel)(Arguments...)) {
  return [kernel](unsigned blocks, void** arguments, unsigned threads) {
    return with_arguments(kernel, blocks, arguments, threads, std::index_sequence_for<Arguments...>{});
  };
}

const std::map<std::string, Maker>& makers() {
#define ONE(name) \
  { #name, maker(name) }
#define TWO(name) ONE(name##_f), ONE(name##_d)
  static const std::map<std::string, Maker> all{
      ONE(adam_update),
      ONE(average_pool),
      ONE(average_pool_d),
      ONE(burn),
      ONE(columns_to_image),
      ONE(cross_entropy_d),
      ONE(delay_cycles),
      ONE(delay_ns),
      ONE(mark_ns),
      ONE(delay_since),
      ONE(dropout),
      ONE(dropout_d),
      ONE(expert_slots),
      ONE(expert_spread),
      ONE(expert_sum),
      ONE(expert_weights_d),
      ONE(fill),
      ONE(gather),
      ONE(gather_chain),
      ONE(gather_d),
      ONE(gather_elements),
      ONE(gather_elements_d),
      ONE(gather_strided),
      ONE(image_to_columns),
      ONE(lstm_cell),
      ONE(lstm_cell_d),
      ONE(max_pool),
      ONE(max_pool_d),
      ONE(momentum_update),
      ONE(normalize),
      ONE(normalize_d),
      ONE(normalize_gain_d),
      ONE(normalize_gain_lines_d),
      ONE(pad),
      ONE(pad_d),
      ONE(pick_labels),
      ONE(reduce),
      ONE(reduce_d),
      ONE(reduce_lines),
      ONE(scale_add),
      ONE(scatter_strided),
      ONE(sgd_update),
      ONE(softmax),
      ONE(softmax_d),
      ONE(sweep_l2),
      ONE(timer_rate),
      ONE(top_k),
      ONE(top_k_d),
      ONE(where_d),
      ONE(where_f),
      TWO(Relu),
      TWO(Sigmoid),
      TWO(Tanh),
      TWO(Exp),
      TWO(Sqrt),
      TWO(Reciprocal),
      TWO(LeakyRelu),
      TWO(ThresholdedRelu),
      TWO(Elu),
      TWO(Celu),
      TWO(Selu),
      TWO(HardSigmoid),
      TWO(HardSwish),
      TWO(Gelu),
      TWO(GeluTanh),
      TWO(Erf),
      TWO(Log),
      TWO(Abs),
      TWO(Neg),
      TWO(Softplus),
      TWO(Softsign),
      TWO(Swish),
      TWO(Mish),
      TWO(Sin),
      TWO(Cos),
      TWO(Clip),
      TWO(Identity),
      TWO(Truncate),
      TWO(Truth),
      TWO(Not),
      TWO(Floor),
      TWO(Ceil),
      TWO(Sign),
      TWO(Add),
      TWO(Sub),
      TWO(Mul),
      TWO(Div),
      TWO(Pow),
      TWO(PRelu),
      TWO(Max),
      TWO(Min),
      TWO(Equal),
      TWO(Greater),
      TWO(Less),
      TWO(GreaterOrEqual),
      TWO(LessOrEqual),
      TWO(And),
      TWO(Or),
  };
  return all;
}

}  // namespace

namespace trainyard::test {

std::function<void()> host_kernel(const std::string& name, unsigned blocks, void** arguments, unsigned threads) {
  const auto known = makers().find(name);
  return known == makers().end() ? std::function<void()>{} : known->second(blocks, arguments, threads);
}

std::uint64_t touched_by_kernels() { return all_touched; }

float HostArray::get(int i) const {
  const float value = In{at, is_short}[static_cast<u64>(i)];
  if (!tf32) return value;
  u32 bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~u32{0x1fff};
  float rounded = 0;
  std::memcpy(&rounded, &bits, sizeof rounded);
  return rounded;
}
void HostArray::set(int i, float value) const { Out{at, is_short}[static_cast<u64>(i)] = value; }

void host_gemm(bool turn_a, bool turn_b, int m, int n, int k, float alpha, HostArray a, int lda, HostArray b, int ldb,
               float beta, HostArray c, int ldc) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      float sum = 0;
      for (int p = 0; p < k; ++p)
        sum += a.get(turn_a ? i * lda + p : p * lda + i) * b.get(turn_b ? p * ldb + j : j * ldb + p);
      const int to = j * ldc + i;
      c.set(to, alpha * sum + (beta == 0 ? 0 : beta * c.get(to)));
    }
}

}  // namespace trainyard::test
