#pragma once

#include <functional>
#include <string>
#include <vector>

#include "console.hpp"
#include "option_set.hpp"

namespace trainyard::program {

/// The parsed command: run a verb, or print a text (help, the version) and end.
struct Command {
  std::string text = {};
  ConsoleOptions console = {};
  std::function<int(Console&)> run = {};
};

/// `words` are the arguments without the program's name. Throws UsageError: an unknown verb with the nearest one, and
/// what OptionSet::parse() finds.
Command parse_command_line(const std::vector<std::string>& words);

/// All verbs with their options, for completion.
struct VerbInfo {
  std::string name;
  std::vector<OptionInfo> options;
};
std::vector<VerbInfo> verb_infos();

}  // namespace trainyard::program
