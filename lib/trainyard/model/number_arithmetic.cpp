#include "trainyard/model/number_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard::detail {

std::optional<std::int64_t> whole_result(std::string_view type, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (type == "Add") return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional{result};
  if (type == "Sub") return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional{result};
  if (type == "Mul") return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional{result};
  if (type == "Div" || type == "Mod") {
    if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
    if (type == "Div") return a / b;
    const std::int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;  // sign of the divisor
  }
  if (type == "Max") return std::max(a, b);
  if (type == "Min") return std::min(a, b);
  if (type == "And") return a && b;
  if (type == "Or") return a || b;
  return std::nullopt;
}

std::optional<double> real_result(std::string_view type, double a, double b) {
  if (type == "Add") return a + b;
  if (type == "Sub") return a - b;
  if (type == "Mul") return a * b;
  if (type == "Div") return a / b;
  if (type == "Pow") return std::pow(a, b);
  if (type == "Max") return std::max(a, b);
  if (type == "Min") return std::min(a, b);
  return std::nullopt;
}

}  // namespace trainyard::detail
