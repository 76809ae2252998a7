#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace trainyard::cuda {

/// Machine code of the kernels for one architecture, compressed by zlib.
struct EmbeddedKernels {
  std::string_view architecture;  // "sm_90"
  std::string_view packed;
  std::size_t size = 0;  // of the uncompressed code
};

/// The kernels that the build compiled; none without NVRTC.
std::span<const EmbeddedKernels> embedded_kernels();

}  // namespace trainyard::cuda
