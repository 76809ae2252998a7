#include "usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "trainyard/core/nearest_name.hpp"

namespace trainyard::program {

std::size_t one_of(const std::string& word, std::span<const std::string> choices, std::string_view option) {
  const auto found = std::ranges::find(choices, word);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  throw UsageError(
      fmt::format("{}: '{}' is not one of {}", option, word, fmt::join(choices.begin(), choices.end(), ", ")),
      did_you_mean(word, choices));
}

std::int64_t whole_number(const std::string& text, std::string_view option, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range && end == text.data() + text.size() && !text.starts_with('-'))
    throw UsageError(fmt::format("{}: {} is too large", option, text),
                     fmt::format("at most {}", std::numeric_limits<std::int64_t>::max()));
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    throw UsageError(fmt::format("{}: '{}' is not a whole number of at least {}", option, text, least));
  return value;
}

std::pair<std::string, std::string> key_and_value(const std::string& text, std::string_view option,
                                                  std::string_view example) {
  const auto at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw UsageError(fmt::format("{}: '{}' is not of the form {}", option, text, example));
  return {text.substr(0, at), text.substr(at + 1)};
}

std::vector<std::string> between_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    parts.emplace_back(part);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return parts;
}

}  // namespace trainyard::program
