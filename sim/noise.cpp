#include "noise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "usage.hpp"

namespace trainyard::program {
namespace {

constexpr std::string_view kForms = "as in 5%, or by op type as in Conv=10%,default=3%";

/// Parses a percentage, "5%" or "0.5 %". Returns the share.
double share_of(std::string_view text) {
  std::string_view digits = text;
  if (digits.empty() || digits.back() != '%')
    throw UsageError(fmt::format("--noise: '{}' has no unit", text), fmt::format("give a percentage, {}", kForms));
  digits.remove_suffix(1);
  while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), percent);
  if (error != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(percent) || percent < 0)
    throw UsageError(fmt::format("--noise: '{}' is not a percentage of 0 % or more", text), std::string{kForms});
  return percent / 100;
}

}  // namespace

OpNoise parse_noise(std::string_view text) {
  OpNoise noise;
  bool has_usual = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = part.rfind('=');
    const std::string type{equals == std::string_view::npos ? "default" : part.substr(0, equals)};
    const double share = share_of(equals == std::string_view::npos ? part : part.substr(equals + 1));
    const bool again = type == "default"
                           ? has_usual
                           : std::ranges::any_of(noise.by_type, [&](const auto& known) { return known.first == type; });
    if (again) throw UsageError(fmt::format("--noise gives '{}' twice", type), "keep one");
    if (type == "default") {
      noise.usual = share;
      has_usual = true;
    } else {
      noise.by_type.emplace_back(type, share);
    }
  }
  return noise;
}

}  // namespace trainyard::program
