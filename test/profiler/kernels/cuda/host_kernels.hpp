#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::test {

/// A launch of one of the kernels of profiler/kernels/cuda (.cu), compiled for the host: a grid of this many blocks
/// of `threads` threads. Arguments are copied now; the call runs it. Empty: there is no kernel of this name.
std::function<void()> host_kernel(const std::string& name, unsigned blocks, void** arguments, unsigned threads = 1);

/// Bytes of arrays (In, Out) that kernels have read and written until now, each as often as it was.
std::uint64_t touched_by_kernels();

/// An array of floats, or of bfloat16.
struct HostArray {
  void* at;
  bool is_short;
  bool tf32 = false;  // read with 10 bits of mantissa

  float get(int i) const;
  void set(int i, float value) const;
};

/// C = alpha A B + beta C as cuBLAS has it: columns first.
void host_gemm(bool turn_a, bool turn_b, int m, int n, int k, float alpha, HostArray a, int lda, HostArray b, int ldb,
               float beta, HostArray c, int ldc);

}  // namespace trainyard::test
