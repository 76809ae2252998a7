#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::test {

/// Returns a launch of one of the kernels of profiler/kernels/cuda (.cu), compiled for the host, with a grid of
/// `blocks` blocks of `threads` threads. The arguments are copied now; calling the result runs the kernel. The result
/// is empty if no kernel has this name.
std::function<void()> host_kernel(const std::string& name, unsigned blocks, void** arguments, unsigned threads = 1);

/// Bytes of arrays (In, Out) that kernels have read and written so far; repeated accesses count each time.
std::uint64_t touched_by_kernels();

/// An array of float or bfloat16.
struct HostArray {
  void* at;
  bool is_short;
  bool tf32 = false;  // reads round to 10 bits of mantissa

  float get(int i) const;
  void set(int i, float value) const;
};

/// C = alpha A B + beta C with cuBLAS's column-major arrays.
void host_gemm(bool turn_a, bool turn_b, int m, int n, int k, float alpha, HostArray a, int lda, HostArray b, int ldb,
               float beta, HostArray c, int ldc);

}  // namespace trainyard::test
