#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard::program {

// Exit codes (MANUAL.md has the full table).
inline constexpr int kDone = 0, kAnswerIsNo = 1, kUsage = 2, kInput = 3, kMissing = 4, kInconclusive = 5,
                     kInternal = 70, kNoReader = 141;

/// The command line is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& what, std::string help = "")
      : std::runtime_error(what), help_(std::move(help)) {}

  /// Turns the error of a library function into one about a word of the command line.
  explicit UsageError(const InputError& error, const std::string& option = "")
      : UsageError((option.empty() ? "" : option + ": ") + error.findings().front().message,
                   error.findings().front().help) {}

  const std::string& help() const { return help_; }

 private:
  std::string help_;
};

// Parsers of words of the command line. All throw UsageError that names the option.

/// Index of `word` among the choices. Error: "--training: 'sdg' is not one of sgd, momentum, adam, none".
std::size_t one_of(const std::string& word, std::span<const std::string> choices, std::string_view option);
/// A whole number of at least `least`.
std::int64_t whole_number(const std::string& text, std::string_view option, std::int64_t least);
/// Splits "KEY=VALUE"; the error names `example` if key or value is missing.
std::pair<std::string, std::string> key_and_value(const std::string& text, std::string_view option,
                                                  std::string_view example);
/// The parts between commas; empty between two adjacent commas.
std::vector<std::string> between_commas(std::string_view text);

}  // namespace trainyard::program
