#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard {

/// FLOPs (multiplications and additions) of PyTorch's matrix products and convolutions; 0 for every other op. `shapes`
/// are the shapes of the arguments (empty for one that is not a tensor), and `made` is the number of elements of the
/// first result.
///
///     mm, addmm, bmm, baddbmm      2 x (elements of the left factor) x (columns of the right one)
///     linear(x, w)                 2 x (elements of x) x (rows of w)
///     convolution                  2 x (elements of the result) x (elements of the weight) / (its first dimension)
///     convolution_backward         twice the forward convolution
double trace_flops(std::string_view type, const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t made);

}  // namespace trainyard
