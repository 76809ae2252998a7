#include "command_line.hpp"

#include <fmt/format.h>

#include <iterator>

#include "build_info.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

void declare_console(OptionSet& set, ConsoleOptions& options) {
  set.flag("--json", options.json, "prints one JSON object, errors included");
  set.flag("-q,--quiet", options.quiet, "only results and errors");
  set.flag("--no-progress", options.no_progress, "no progress line");
  set.choice("--color", options.color, {{"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}},
             "colours (default: auto)");
}

const Verb& verb_named(const std::string& word) {
  std::vector<std::string> names;
  for (const Verb* verb : kVerbs) {
    if (verb->name == word) return *verb;
    names.emplace_back(verb->name);
  }
  if (word.starts_with('-'))
    throw UsageError(fmt::format("'{}' is given in place of a verb", word), "give options after the verb");
  std::string help = did_you_mean(word, names);
  if (help.empty()) help = fmt::format("the verbs are {}", fmt::join(names, ", "));
  throw UsageError(fmt::format("'{}' is not a verb", word), help);
}

std::string help_of_all() {
  std::vector<std::pair<std::string, std::string>> verbs;
  for (const Verb* verb : kVerbs) verbs.emplace_back(verb->name, verb->summary);
  return root_help(verbs);
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& words) {
  if (words.empty())
    throw UsageError("a verb is missing",
                     "`trainyard --help` lists them; to begin with: trainyard compare resnet50 "
                     "--cluster 4xV100");
  const std::string& first = words.front();
  const bool asks_help = first == "help";
  if (first == "--help" || first == "-h" || (asks_help && words.size() == 1)) return {.text = help_of_all()};
  if (first == "--version") return {.text = fmt::format("trainyard {}\n", kVersion)};

  const Verb& verb = verb_named(asks_help ? words[1] : first);
  OptionSet set{verb.name, verb.summary, verb.example};
  Command command;
  command.run = verb.declare(set);
  declare_console(set, command.console);
  if (asks_help || !set.parse({std::next(words.begin()), words.end()})) return {.text = set.help()};
  command.console.output_on_stdout = set.takes_standard_output();
  return command;
}

std::vector<VerbInfo> verb_infos() {
  std::vector<VerbInfo> infos;
  for (const Verb* verb : kVerbs) {
    OptionSet set{verb->name, verb->summary, verb->example};
    const auto run = verb->declare(set);
    ConsoleOptions console;
    declare_console(set, console);
    infos.push_back({verb->name, set.infos()});
  }
  return infos;
}

}  // namespace trainyard::program
