#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"

// toml++ is large: only .cpp files that read TOML include this header.
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 asserts (and in a release build assumes) that the key of a table header begins with a letter that a key
// may have; without the assertion its parser reports "[!]" as an error, as it should.
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT
#define TOML_ASSERT(expr) static_assert(true)
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

namespace trainyard::detail {

/// Collects what is wrong with one TOML text, up to kMostFindings, each with its line and column.
class TomlFindings {
 public:
  TomlFindings(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  void add(const toml::source_region& at, std::string pointer, std::string code, std::string message,
           std::string help = "");
  /// Findings with pointers such as "/link/2/bandwidth": placed at the innermost existing value on the way.
  void add(const std::vector<Finding>& findings, const toml::table& root);
  bool empty() const { return findings_.empty(); }
  /// Throws InputError where there is any finding, in the order of the text.
  void raise_if_any();

 private:
  std::string file_;
  std::string_view text_;
  std::vector<Finding> findings_;
};

/// The table of a whole text; a syntax error is thrown as InputError, code "toml".
toml::table parse_toml(std::string_view text, const std::string& name);

/// The text as a TOML string in double quotes.
std::string toml_string(std::string_view text);

}  // namespace trainyard::detail
