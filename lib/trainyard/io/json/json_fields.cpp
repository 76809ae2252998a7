#include "trainyard/io/json/json_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "trainyard/core/nearest_name.hpp"

namespace trainyard::detail {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 62;

bool wrong_kind(const JsonValue& value, const char* expected, FindingList& findings) {
  findings.add(value.begin_offset(), "type",
               fmt::format("{} must be {}, got {}", label(value), expected, name_of(value.kind())),
               value.kind() == JsonKind::null ? "leave the key out if there is no value" : "");
  return false;
}

double number_of(const JsonValue& value) {
  double number = 0;
  std::from_chars(value.text().data(), value.text().data() + value.text().size(), number);
  return number;  // 0 also for magnitudes below the smallest double
}

}  // namespace

const char* name_of(JsonKind kind) {
  static constexpr std::array<const char*, 6> kNames{"null",     "true or false", "a number",
                                                     "a string", "an array",      "an object"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string label(const JsonValue& value) {
  return value.key().empty() ? std::string{"the element"} : fmt::format("\"{}\"", value.key());
}

bool expect(const JsonValue& value, JsonKind kind, FindingList& findings) {
  return value.kind() == kind || wrong_kind(value, name_of(kind), findings);
}

bool read(const JsonValue& value, std::string& out, FindingList& findings) {
  if (!expect(value, JsonKind::string, findings)) return false;
  out = value.text();
  return true;
}

bool read(const JsonValue& value, std::string_view& out, FindingList& findings) {
  if (!expect(value, JsonKind::string, findings)) return false;
  out = value.text();
  return true;
}

bool read(const JsonValue& value, bool& out, FindingList& findings) {
  if (!expect(value, JsonKind::boolean, findings)) return false;
  out = value.text() == "true";
  return true;
}

bool read(const JsonValue& value, double& out, FindingList& findings) {
  if (!expect(value, JsonKind::number, findings)) return false;
  out = number_of(value);
  return true;
}

bool read(const JsonValue& value, std::vector<std::string>& out, FindingList& findings) {
  std::vector<std::string_view> views;
  const bool right = read(value, views, findings);
  out.insert(out.end(), views.begin(), views.end());
  return right;
}

bool read(const JsonValue& value, std::vector<std::string_view>& out, FindingList& findings) {
  if (!expect(value, JsonKind::array, findings)) return false;
  for (const JsonValue element : value.children()) {
    if (element.kind() != JsonKind::string) {
      findings.add(element.begin_offset(), "type",
                   fmt::format("{} must hold strings, got {}", label(value), name_of(element.kind())));
      return false;
    }
    out.push_back(element.text());
  }
  return true;
}

bool read_count(const JsonValue& value, std::int64_t& out, std::string_view unit, const char* negative_code,
                FindingList& findings) {
  const std::string number_of_units = unit.empty() ? "number" : fmt::format("number of {}", unit);
  if (value.kind() != JsonKind::number) return wrong_kind(value, ("a " + number_of_units).c_str(), findings);
  const std::string_view text = value.text();
  if (text.front() == '-' && number_of(value) != 0) {
    findings.add(value.begin_offset(), negative_code, fmt::format("{} must be 0 or more, got {}", label(value), text),
                 fmt::format("a negative {} is often an overflow or a missing size", number_of_units));
    return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool all = end == text.data() + text.size();
  if (all && error == std::errc{} && out <= kLargest) return true;
  const double number = number_of(value);
  if (number > static_cast<double>(kLargest) || (all && error != std::errc{}) || out > kLargest) {
    findings.add(value.begin_offset(), "too-large",
                 fmt::format("{} is {}, more than 2^62{}{}", label(value), text, unit.empty() ? "" : " ", unit),
                 "numbers this large are often an overflow or a wrong unit");
    return false;
  }
  if (number != std::floor(number)) {
    findings.add(value.begin_offset(), "fraction",
                 fmt::format("{} must be a whole {}, got {}", label(value), number_of_units, text), "round it");
    return false;
  }
  out = static_cast<std::int64_t>(number);
  return true;
}

bool read_seed(const JsonValue& value, std::uint64_t& out, FindingList& findings) {
  if (!expect(value, JsonKind::number, findings)) return false;
  const std::string_view text = value.text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (end == text.data() + text.size() && error == std::errc{}) return true;
  findings.add(value.begin_offset(), "type",
               fmt::format("{} must be a whole number from 0 to 2^64 - 1, got {}", label(value), text));
  return false;
}

bool is_remark(std::string_view key) { return key == "comment" || key.starts_with("x-"); }

void unknown_key(const JsonValue& member, std::string_view where, std::span<const std::string> known,
                 FindingList& findings) {
  std::string help = did_you_mean(member.key(), known);
  if (help.empty()) {
    help = "known keys: ";
    for (std::size_t i = 0; i < known.size(); ++i) help += (i ? ", " : "") + known[i];
  }
  findings.add(member.key_offset(), "unknown-key", fmt::format("unknown key \"{}\" in {}", member.key(), where),
               help + (help.back() == '?' ? " " : "; ") + "(keys that begin with \"x-\" are ignored)");
}

bool check_format(const JsonValue& root, std::string_view expected, FindingList& findings) {
  const auto format = root.find("format");
  const std::string help = fmt::format("the file must have \"format\": \"{}\"", expected);
  if (!format) {
    findings.replace(root.begin_offset(), "format", "the file has no \"format\"", help);
    return false;
  }
  if (format->kind() != JsonKind::string) {
    findings.replace(format->begin_offset(), "format",
                     fmt::format("\"format\" must be a string, got {}", name_of(format->kind())), help);
    return false;
  }
  if (format->text() == expected) return true;
  const std::string_view kind = expected.substr(0, expected.find('/') + 1);
  findings.replace(
      format->begin_offset(), "format", fmt::format("the format is \"{}\", expected \"{}\"", format->text(), expected),
      format->text().starts_with(kind) ? "another version of trainyard wrote it: write it again with this one"
                                       : "check that it is the right file; " + help);
  return false;
}

void append_compact(std::string& text, const JsonValue& value) {
  if (value.kind() != JsonKind::array) {
    text += value.text();
    return;
  }
  text += '[';
  for (const JsonValue each : value.children()) {
    if (text.back() != '[') text += ',';
    append_compact(text, each);
  }
  text += ']';
}

}  // namespace trainyard::detail
