#include "trainyard/io/toml/toml_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard::detail {
namespace {

/// The innermost existing value along the pointer.
const toml::node& follow(const toml::table& root, std::string_view pointer) {
  const toml::node* node = &root;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    const std::string_view token = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(token.size());
    const toml::node* next = nullptr;
    if (const auto* table = node->as_table()) next = table->get(token);
    if (const auto* array = node->as_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
      if (error == std::errc{} && end == token.data() + token.size()) next = array->get(index);
    }
    if (!next) break;
    node = next;
  }
  return *node;
}

/// The end, after the closing quotes, of the string that begins at `at`. A string without closing quotes ends at its
/// line break if it is single-line, otherwise at the end of the text.
std::size_t string_end(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  const bool lines = three.size() == 3 && three[1] == quote && three[2] == quote;
  for (std::size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"')
      ++i;
    else if (lines && text.substr(i, 3) == three)
      return std::min(text.find_first_not_of(quote, i), text.size());  // more quotes may precede the last three
    else if (!lines && (text[i] == quote || text[i] == '\n'))
      return i + (text[i] == quote ? 1 : 0);
  }
  return text.size();
}

/// Position of the dot with which a key exceeds limits::kTomlDots dots; nothing if no key does.
std::optional<std::size_t> long_key(std::string_view text) {
  std::size_t dots = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      i = string_end(text, i);
    } else {
      if (c == '.' && ++dots > limits::kTomlDots) return i;
      if (std::string_view{"\n=,[{"}.find(c) != std::string_view::npos) dots = 0;
      ++i;
    }
  }
  return std::nullopt;
}

}  // namespace

void TomlFindings::add(const toml::source_region& at, std::string pointer, std::string code, std::string message,
                       std::string help) {
  if (findings_.size() >= kMostFindings) return;
  Finding finding{std::move(code), std::move(message), std::move(help), std::move(pointer), {}};
  finding.at = location_at_line(file_, text_, std::max(1, static_cast<int>(at.begin.line)),
                                std::max(1, static_cast<int>(at.begin.column)));
  findings_.push_back(std::move(finding));
}

void TomlFindings::add(const std::vector<Finding>& findings, const toml::table& root) {
  for (const Finding& finding : findings)
    add(follow(root, finding.pointer).source(), finding.pointer, finding.code, finding.message, finding.help);
}

void TomlFindings::raise_if_any() {
  if (findings_.empty()) return;
  sort_by(findings_, [](const Finding& each) { return std::pair{each.at.line, each.at.column}; });
  throw InputError(std::move(findings_));
}

toml::table parse_toml(std::string_view text, const std::string& name) {
  if (const auto at = long_key(text)) {
    Finding finding{"toml",
                    fmt::format("not valid here: a key with more than {} dots", limits::kTomlDots),
                    "write keys without dots: clusters and studies need none",
                    "",
                    {}};
    finding.at = location_at(name, text, *at);
    throw InputError(std::move(finding));
  }
  try {
    return toml::parse(text, std::string_view{name});
  } catch (const toml::parse_error& error) {
    TomlFindings findings{name, text};
    findings.add(error.source(), "", "toml", "not valid TOML: " + std::string{error.description()});
    findings.raise_if_any();
    throw;
  }
}

std::string toml_string(std::string_view text) {
  std::string out = json_string(text);  // JSON's escapes are valid in TOML, which also forbids DEL
  for (std::size_t at = out.find('\x7F'); at != std::string::npos; at = out.find('\x7F', at))
    out.replace(at, 1, "\\u007F");
  return out;
}

}  // namespace trainyard::detail
