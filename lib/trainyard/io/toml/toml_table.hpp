#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/io/toml/toml_value.hpp"

namespace trainyard::detail {

/// Reads one table of a TOML file: keys are taken by name, and errors become findings.
class TableReader {
 public:
  /// `what` is a phrase for messages, such as "a device".
  TableReader(const toml::table& table, std::string pointer, std::string what, TomlFindings& findings)
      : table_(table), pointer_(std::move(pointer)), what_(std::move(what)), findings_(findings) {}

  const toml::node* get(const char* key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
    return table_.get(key);
  }
  std::optional<std::string> text(const char* key);
  std::string required_text(const char* key, const char* help);
  std::vector<std::string> texts(const char* key);
  bool truth(const char* key);
  std::optional<std::int64_t> whole(const char* key);
  std::optional<double> number(const char* key);
  /// Index in `words` of the value; 0, the first word, if the key is absent.
  std::size_t word(const char* key, const std::vector<std::string>& words);

  /// A quantity with a unit. `parse` is one of the unit parsers of core/units.hpp.
  template <class Parse>
  auto quantity(const char* key, Parse parse)
      -> std::optional<decltype(parse(std::string_view{}, std::string_view{}))> {
    const auto written = quantity_text(key);
    if (!written) return std::nullopt;
    try {
      return parse(*written, key);
    } catch (const InputError& error) {
      const Finding& finding = error.findings().front();
      fail(*table_.get(key), key, finding.code, finding.message, finding.help);
      return std::nullopt;
    }
  }

  /// Calls `take` for each table of `[[key]]`. `what` is a phrase for messages.
  void for_each(const char* key, const std::string& what, const std::function<void(TableReader&)>& take);

  /// Calls `take` for the table `[key]`. Returns false if the key is absent.
  bool for_one(const char* key, const std::string& what, const std::function<void(TableReader&)>& take);

  void missing(const char* key, const std::string& help);
  void fail(const toml::node& at, const char* key, std::string code, std::string message, std::string help = "");

  /// Reports every key that has not been asked for as unknown. Call it last.
  void check_unknown_keys();

 private:
  /// The value as written. A bare number is passed on as well, so that the unit parser reports the missing unit.
  std::optional<std::string> quantity_text(const char* key);

  const toml::table& table_;
  std::string pointer_;
  std::string what_;
  TomlFindings& findings_;
  std::vector<std::string> known_;
};

}  // namespace trainyard::detail
