#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard {

/// Multiplications and additions of PyTorch's products and convolutions, by the shapes of their arguments (empty where
/// an argument is no tensor) and the number of elements of their first result; 0 for every other op.
///
///     mm, addmm, bmm, baddbmm      2 x (elements of the left factor) x (columns of the right one)
///     linear(x, w)                 2 x (elements of x) x (rows of w)
///     convolution                  2 x (elements of the result) x (elements of the weight) / (its first dimension)
///     convolution_backward         twice the forward convolution
double trace_flops(std::string_view type, const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t made);

}  // namespace trainyard
