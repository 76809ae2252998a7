#pragma once

#include <functional>
#include <string>
#include <vector>

#include "console.hpp"
#include "option_set.hpp"

namespace trainyard::program {

/// The parsed command line: runs a verb, or prints a text (help, the version).
struct Command {
  std::string text = {};
  ConsoleOptions console = {};
  std::function<int(Console&)> run = {};
};

/// Parses the arguments after the program's name. Throws UsageError for an unknown verb, with the nearest one, and the
/// errors of OptionSet::parse().
Command parse_command_line(const std::vector<std::string>& words);

/// All verbs with their options, for shell completion.
struct VerbInfo {
  std::string name;
  std::vector<OptionInfo> options;
};
std::vector<VerbInfo> verb_infos();

}  // namespace trainyard::program
