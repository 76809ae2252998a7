#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace trainyard::detail {

/// The words of a line, as views of it. Comments ("#") are split into words as well.
inline std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(" \t\r")));
    line.remove_prefix(words.back().size());
  }
}

/// A line of a program's output, split into words. All strings are views of the text.
struct LogLine {
  std::string_view text;  // without the line break
  std::vector<std::string_view> words;
};

/// All lines with at least one word.
inline std::vector<LogLine> log_lines(std::string_view text) {
  std::vector<LogLine> lines;
  while (!text.empty()) {
    const std::string_view line_text = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line_text.size() + 1));
    LogLine line{line_text, words_of(line_text)};
    if (!line.words.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

/// The number that the whole word denotes; nothing unless it is finite and not negative.
template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  if (!(value >= 0) || !std::isfinite(static_cast<double>(value))) return std::nullopt;
  return value;
}

}  // namespace trainyard::detail
