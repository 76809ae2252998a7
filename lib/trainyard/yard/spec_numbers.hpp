#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard::detail {

/// The whole numbers in the spec of a generator, such as "layered:ops=40,width=6,seed=3".
class SpecNumbers {
 public:
  struct Number {
    std::string_view name;
    std::int64_t value, least, most;  // value: the default
    bool given = false;
  };

  /// Throws InputError: "spec", "unknown-parameter", "range".
  SpecNumbers(std::string_view spec, std::vector<Number> numbers)
      : word_(spec.substr(0, spec.find(':'))), numbers_(std::move(numbers)) {
    for (std::size_t at = word_.size(); at < spec.size();) {
      const std::size_t end = std::min(spec.find(',', at + 1), spec.size());
      read(spec.substr(at + 1, end - at - 1));
      at = end;
    }
  }

  /// The word before the colon.
  std::string_view word() const { return word_; }
  std::int64_t operator[](std::string_view name) const {
    return std::ranges::find(numbers_, name, &Number::name)->value;
  }

 private:
  void read(std::string_view pair) {
    const std::size_t equals = pair.find('=');
    const auto number = std::ranges::find(numbers_, pair.substr(0, equals), &Number::name);
    if (equals == std::string_view::npos || number == numbers_.end()) {
      std::string names;
      for (const Number& each : numbers_) names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
      refuse(equals == std::string_view::npos ? "spec" : "unknown-parameter",
             fmt::format("'{}' is not a parameter of {}", pair, word_),
             fmt::format("write for example '{}:{}=40'; its parameters are {}", word_, numbers_.front().name, names));
    }
    if (std::exchange(number->given, true))
      refuse("spec", fmt::format("'{}' is given twice in {}", number->name, word_), "give it once");
    const std::string_view text = pair.substr(equals + 1);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number->value);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || number->value < number->least ||
        number->value > number->most)
      refuse("range", fmt::format("{}={} is out of range", number->name, text),
             fmt::format("give a whole number from {} to {}", number->least, number->most));
  }

  std::string_view word_;
  std::vector<Number> numbers_;
};

}  // namespace trainyard::detail
