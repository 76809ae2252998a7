#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

/// Location of a finding in an input. Readers that know positions fill line and column (from 1); others leave them 0.
struct Location {
  std::string file = {};
  int line = 0;
  int column = 0;
  std::string source_line = {};  // the line at fault, without its end; an excerpt if it is very long
  int excerpt_column = 0;        // column within source_line if that is an excerpt; else 0

  friend bool operator==(const Location&, const Location&) = default;
};

/// One error in an input, described in the input's own names, with its remedy.
struct Finding {
  std::string code;          // stable identifier for programs: "cycle", "unknown-device"
  std::string message;       // what is wrong
  std::string help = {};     // the remedy; may be empty
  std::string pointer = {};  // JSON pointer into the input ("/ops/3/outputs/0/bytes"); empty for the whole input
  Location at = {};          // filled from the pointer by the reader that has the text
};

/// Escapes a name as one token of a JSON pointer (RFC 6901): "a/b" becomes "a~1b".
inline std::string pointer_token(std::string_view name) {
  std::string token;
  for (const char c : name) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

/// Number of findings that a reader collects before it gives up.
inline constexpr std::size_t kMostFindings = 20;

/// Invalid input: the one exception for everything that a person or another program wrote. The library throws it where
/// the input enters; `what()` is the first finding's message.
class InputError : public std::runtime_error {
 public:
  explicit InputError(Finding finding) : InputError(std::vector<Finding>{std::move(finding)}) {}
  explicit InputError(std::vector<Finding> findings)
      : std::runtime_error(findings.empty() ? "invalid input" : findings.front().message),
        findings_(std::move(findings)) {}

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  std::vector<Finding> findings_;
};

/// Throws InputError with one finding.
[[noreturn]] void refuse(std::string_view code, std::string message, std::string_view help,
                         std::string_view pointer = {});

/// Thrown if this machine or this build lacks something that the request needs: a solver, a GPU, a package. `help`
/// names the remedy.
class MissingError : public std::runtime_error {
 public:
  MissingError(const std::string& what, std::string help) : std::runtime_error(what), help_(std::move(help)) {}

  const std::string& help() const { return help_; }

 private:
  std::string help_;
};

}  // namespace trainyard
