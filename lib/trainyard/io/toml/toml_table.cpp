#include "trainyard/io/toml/toml_table.hpp"

#include <fmt/format.h>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/json/json_fields.hpp"

namespace trainyard::detail {
namespace {

const char* kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

}  // namespace

std::optional<std::string> TableReader::text(const char* key) {
  const toml::node* node = get(key);
  if (!node) return std::nullopt;
  if (const auto* string = node->as_string()) return string->get();
  fail(*node, key, "type", fmt::format("\"{}\" must be a string, got {}", key, kind_of(*node)));
  return std::string{};
}

std::string TableReader::required_text(const char* key, const char* help) {
  if (!table_.get(key)) missing(key, help);
  return text(key).value_or("");
}

std::vector<std::string> TableReader::texts(const char* key) {
  std::vector<std::string> all;
  const toml::node* node = get(key);
  if (!node) return all;
  const auto* array = node->as_array();
  if (!array) {
    fail(*node, key, "type", fmt::format("\"{}\" must be a list of strings, got {}", key, kind_of(*node)));
    return all;
  }
  for (const toml::node& element : *array) {
    if (const auto* string = element.as_string())
      all.push_back(string->get());
    else
      fail(element, key, "type", fmt::format("\"{}\" must hold strings, got {}", key, kind_of(element)));
  }
  return all;
}

bool TableReader::truth(const char* key) {
  const toml::node* node = get(key);
  if (!node) return false;
  if (const auto* boolean = node->as_boolean()) return boolean->get();
  fail(*node, key, "type", fmt::format("\"{}\" must be true or false, got {}", key, kind_of(*node)));
  return false;
}

std::optional<std::int64_t> TableReader::whole(const char* key) {
  const toml::node* node = get(key);
  if (!node) return std::nullopt;
  if (const auto* integer = node->as_integer()) return integer->get();
  fail(*node, key, "type", fmt::format("\"{}\" must be a whole number, got {}", key, kind_of(*node)));
  return std::nullopt;
}

std::optional<double> TableReader::number(const char* key) {
  const toml::node* node = get(key);
  if (!node) return std::nullopt;
  if (const auto* integer = node->as_integer()) return static_cast<double>(integer->get());
  if (const auto* real = node->as_floating_point()) return real->get();
  fail(*node, key, "type", fmt::format("\"{}\" must be a number, got {}", key, kind_of(*node)));
  return std::nullopt;
}

std::size_t TableReader::word(const char* key, const std::vector<std::string>& words) {
  const auto written = text(key);
  if (!written) return 0;
  const auto at = std::find(words.begin(), words.end(), *written);
  if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  if (const toml::node* node = table_.get(key); node->is_string())
    fail(*node, key, "unknown-word", fmt::format("\"{}\" is '{}'", key, *written),
         fmt::format("it can be {}", fmt::join(words, " or ")));
  return 0;
}

std::optional<std::string> TableReader::quantity_text(const char* key) {
  const toml::node* node = get(key);
  if (!node) return std::nullopt;
  if (const auto* string = node->as_string()) return string->get();
  if (const auto* integer = node->as_integer()) return fmt::format("{}", integer->get());
  if (const auto* real = node->as_floating_point()) return fmt::format("{}", real->get());
  fail(*node, key, "type", fmt::format("\"{}\" must be a string such as \"5 us\", got {}", key, kind_of(*node)));
  return std::nullopt;
}

void TableReader::for_each(const char* key, const std::string& what, const std::function<void(TableReader&)>& take) {
  const toml::node* node = get(key);
  if (!node) return;
  const std::string help = fmt::format("begin each with [[{}]]", key);
  const auto* array = node->as_array();
  if (!array)
    return fail(*node, key, "type", fmt::format("\"{}\" must be a list of tables, got {}", key, kind_of(*node)), help);
  for (std::size_t i = 0; i < array->size(); ++i) {
    const toml::node& element = *array->get(i);
    const std::string pointer = fmt::format("{}/{}/{}", pointer_, key, i);
    if (const auto* table = element.as_table()) {
      TableReader reader{*table, pointer, what, findings_};
      take(reader);
      reader.check_unknown_keys();
    } else {
      findings_.add(element.source(), pointer, "type",
                    fmt::format("\"{}\" must hold tables, got {}", key, kind_of(element)), help);
    }
  }
}

bool TableReader::for_one(const char* key, const std::string& what, const std::function<void(TableReader&)>& take) {
  const toml::node* node = get(key);
  if (!node) return false;
  if (const auto* table = node->as_table()) {
    TableReader reader{*table, fmt::format("{}/{}", pointer_, key), what, findings_};
    take(reader);
    reader.check_unknown_keys();
  } else {
    fail(*node, key, "type", fmt::format("\"{}\" must be a table, got {}", key, kind_of(*node)),
         fmt::format("begin it with [{}]", key));
  }
  return true;
}

void TableReader::missing(const char* key, const std::string& help) {
  findings_.add(table_.source(), pointer_, "missing-key", fmt::format("{} has no \"{}\"", what_, key), help);
}

void TableReader::fail(const toml::node& at, const char* key, std::string code, std::string message, std::string help) {
  findings_.add(at.source(), pointer_ + "/" + key, std::move(code), std::move(message), std::move(help));
}

void TableReader::check_unknown_keys() {
  for (auto&& [key, value] : table_) {
    const std::string_view name = key.str();
    if (is_remark(name)) continue;
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    std::string help = did_you_mean(name, known_);
    if (help.empty()) help = fmt::format("known keys: {}", fmt::join(known_, ", "));
    findings_.add(key.source(), pointer_ + "/" + pointer_token(name), "unknown-key",
                  fmt::format("unknown key \"{}\" in {}", name, what_), help);
  }
}

}  // namespace trainyard::detail
