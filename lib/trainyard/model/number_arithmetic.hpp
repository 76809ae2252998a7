#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainyard::detail {

/// Result of an operator on two whole numbers; nothing where the result overflows or is undefined, or the operator is
/// not one of these: Add, Sub, Mul, Div, Mod, Max, Min, And, Or. Division rounds towards zero, as in C.
std::optional<std::int64_t> whole_result(std::string_view type, std::int64_t a, std::int64_t b);

/// Result of an operator on two floating-point numbers: Add, Sub, Mul, Div, Pow, Max, Min.
std::optional<double> real_result(std::string_view type, double a, double b);

}  // namespace trainyard::detail
