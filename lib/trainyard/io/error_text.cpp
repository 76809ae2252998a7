#include "trainyard/io/error_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "trainyard/core/printable.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace {

constexpr std::string_view kBold = "\x1b[1m", kRed = "\x1b[1;31m", kCyan = "\x1b[36m", kPlain = "\x1b[0m";

/// The text to underline from byte `at` on: a quoted string with its quotes, otherwise everything up to the next
/// delimiter; at least one character unless the line has ended.
std::string_view token_at(std::string_view line, std::size_t at) {
  if (at >= line.size()) return {};
  std::size_t end = at + 1;
  if (line[at] == '"' || line[at] == '\'') {
    while (end < line.size() && line[end] != line[at]) end += line[end] == '\\' ? 2u : 1u;
    end = std::min(end + 1, line.size());
  } else if (std::string_view{"{}[]:,"}.find(line[at]) == std::string_view::npos) {
    end = std::min(line.find_first_of(" \t,:{}[]", at), line.size());
    end = std::max(end, at + 1);
  }
  while (end < line.size() && detail::continues_character(line[end])) ++end;
  return line.substr(at, end - at);
}

/// Makes the message printable line by line. Only a line break followed by the indentation (kIndent) starts a new line;
/// a line break inside a name is escaped.
std::string printable_message(std::string_view message) {
  constexpr std::string_view kIndent = "\n      ";
  std::string out;
  for (std::size_t end = message.find(kIndent); end != std::string_view::npos; end = message.find(kIndent)) {
    out += printable(message.substr(0, end));
    out += kIndent;
    message.remove_prefix(end + kIndent.size());
  }
  return out + printable(message);
}

std::string excerpt(const Location& at, bool color) {
  const std::string_view line = at.source_line;
  const int column = at.excerpt_column ? at.excerpt_column : at.column;
  std::size_t byte = 0;
  for (int i = 1; i < column && byte < line.size(); ++i) do
      ++byte;
    while (byte < line.size() && detail::continues_character(line[byte]));
  std::string space;  // blanks as wide as the text before the caret
  for (const char c : line.substr(0, byte))
    if (!detail::continues_character(c)) space += c == '\t' ? '\t' : ' ';
  const std::string_view token = token_at(line, byte);
  const auto width = std::count_if(token.begin(), token.end(), [](char c) { return !detail::continues_character(c); });
  const std::string carets(static_cast<std::size_t>(std::max<std::ptrdiff_t>(width, 1)), '^');
  return fmt::format("{:>5} | {}\n{:>5} | {}{}{}{}\n", at.line, printable(line), "", space, color ? kRed : "", carets,
                     color ? kPlain : "");
}

}  // namespace

std::string error_text(const Finding& finding, const ErrorTextOptions& options) {
  const auto paint = [&](std::string_view how, std::string_view text) {
    return options.color ? fmt::format("{}{}{}", how, text, kPlain) : std::string{text};
  };
  const Location& at = finding.at;
  std::string out;
  std::string place;
  if (!at.file.empty()) place += printable(at.file) + ":";
  if (at.line > 0) place += fmt::format("{}:{}:", at.line, at.column);
  if (!place.empty()) out += paint(kBold, place) + " ";
  out += paint(kRed, finding.code.empty() ? "error" : fmt::format("error[{}]", finding.code));
  out += ": " + printable_message(finding.message) + "\n";
  if (at.line > 0 && !at.source_line.empty()) out += excerpt(at, options.color);
  if (!finding.help.empty()) out += paint(kCyan, "help:") + " " + printable(finding.help) + "\n";
  return out;
}

std::string error_text(const InputError& error, const ErrorTextOptions& options) {
  std::string out;
  for (const Finding& finding : error.findings()) out += error_text(finding, options);
  if (error.findings().empty()) out = fmt::format("error: {}\n", printable(error.what()));
  return out;
}

std::string error_json(const InputError& error) {
  using detail::json_string;
  std::string out = "{\"errors\": [";
  for (const Finding& finding : error.findings()) {
    if (out.back() != '[') out += ", ";
    out += fmt::format(
        "{{\"code\": {}, \"file\": {}, \"line\": {}, \"column\": {}, \"pointer\": {}, \"message\": {}, \"help\": {}}}",
        json_string(finding.code), json_string(finding.at.file), finding.at.line, finding.at.column,
        json_string(finding.pointer), json_string(finding.message), json_string(finding.help));
  }
  return out + "]}\n";
}

}  // namespace trainyard
