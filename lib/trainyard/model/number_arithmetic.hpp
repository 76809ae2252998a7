#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainyard::detail {

/// Result of Add, Sub, Mul, Div, Mod, Max, Min, And or Or on two whole numbers. Returns nothing for any other operator,
/// and if the result overflows or is undefined. Div rounds towards zero, as in C; the result of Mod has the sign of the
/// divisor.
std::optional<std::int64_t> whole_result(std::string_view type, std::int64_t a, std::int64_t b);

/// Result of Add, Sub, Mul, Div, Pow, Max or Min on two floating-point numbers; nothing for any other operator.
std::optional<double> real_result(std::string_view type, double a, double b);

}  // namespace trainyard::detail
