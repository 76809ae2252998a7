#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace trainyard::cuda {

/// Machine code of the kernels for one architecture, packed by zlib.
struct EmbeddedKernels {
  std::string_view architecture;  // "sm_90"
  std::string_view packed;
  std::size_t size = 0;  // of the code
};

/// What the build could compile; none where NVRTC was not there.
std::span<const EmbeddedKernels> embedded_kernels();

}  // namespace trainyard::cuda
