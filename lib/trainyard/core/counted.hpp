#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard {

/// "1,184".
std::string with_separators(std::integral auto number) {
  std::string digits = std::to_string(number);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

/// "2 ops", "1 op", "3 batches", "4 entries": the number with separators, and the word in the plural unless it is 1.
std::string counted(std::integral auto number, std::string_view word) {
  std::string text = with_separators(number).append(" ").append(word);
  if (number == 1) return text;
  if (word.ends_with("y") && !word.ends_with("ay") && !word.ends_with("ey")) text.replace(text.size() - 1, 1, "ie");
  return text.append(word.ends_with("ch") ? "es" : "s");
}

}  // namespace trainyard
