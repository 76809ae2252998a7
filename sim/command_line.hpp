#pragma once

#include <string>
#include <vector>

#include "arguments.hpp"

namespace trainyard::program {

/// An option, as help and completion know it. `value` says what its value is: empty for a flag, "FILE", "MODEL",
/// "CLUSTER", "PLACER", a list "a|b|c", or any other word.
struct OptionInfo {
  std::vector<std::string> names;  // "--output", "-o"
  std::string value;
  std::string help;
  bool repeatable = false;
};

struct VerbInfo {
  std::string name, help;
  std::vector<OptionInfo> options;
  std::string operand;  // what stands without an option, in the words of OptionInfo::value; empty: nothing
};

/// All verbs, read off the same parser that reads the command line.
std::vector<VerbInfo> verb_infos();

/// What to do: run a verb with its arguments, or print a text (help, the version) and end.
struct Command {
  Arguments arguments;
  std::string text;
};

/// `words` are the arguments without the program's name. Throws UsageError (usage.hpp): an unknown verb or option with
/// the nearest one, a value that is missing, an operand that is not expected.
Command parse_command_line(const std::vector<std::string>& words);

}  // namespace trainyard::program
