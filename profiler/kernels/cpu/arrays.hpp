#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "profiler/kernels/arrays.hpp"

namespace trainyard::cpu {

using namespace kernels;

/// Numbers of all types are held and computed as 32-bit floats.
using Array = ArrayOf<float*>;
using OpArrays = OpArraysOf<Array>;
using Kernel = void (*)(OpArrays&);

/// Kernels of one operator. `backward` fills every dx that has data, from the arrays of `in`, `out` and `extra` that
/// its backward rule reads; null if no gradient passes.
struct OpKernels {
  std::string_view type;
  Kernel forward = nullptr, backward = nullptr;
};

/// Null if the operator has no kernels.
const OpKernels* find_kernels(std::string_view type);
/// Names of all operators with kernels.
std::vector<std::string_view> kernel_types();

/// Memory of the calling thread for arrays that live as long as one op; reused from op to op.
class Scratch {
 public:
  static float* floats(std::size_t count);
  /// Makes all memory available again.
  static void reset();
};

}  // namespace trainyard::cpu
