#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/core/error.hpp"

namespace trainyard::program {

/// The command line is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& what, std::string help = "")
      : std::runtime_error(what), help_(std::move(help)) {}

  /// From a library function that was given a word of the command line.
  explicit UsageError(const InputError& error, const std::string& option = "")
      : UsageError((option.empty() ? "" : option + ": ") + error.findings().front().message,
                   error.findings().front().help) {}

  const std::string& help() const { return help_; }

 private:
  std::string help_;
};

/// `word`, or the error that it is none of `choices`: "--training: 'sdg' is not one of sgd, momentum, adam, none".
const std::string& one_of(const std::string& word, std::span<const std::string> choices, std::string_view option);

}  // namespace trainyard::program
