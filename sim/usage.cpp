#include "usage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainyard/core/nearest_name.hpp"

namespace trainyard::program {

const std::string& one_of(const std::string& word, std::span<const std::string> choices, std::string_view option) {
  if (std::ranges::find(choices, word) != choices.end()) return word;
  throw UsageError(
      fmt::format("{}: '{}' is not one of {}", option, word, fmt::join(choices.begin(), choices.end(), ", ")),
      did_you_mean(word, choices));
}

}  // namespace trainyard::program
