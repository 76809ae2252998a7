#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "command_line.hpp"
#include "inputs.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/zoo/zoo.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

struct Words {
  std::string list;    // words that may stand there
  bool files = false;  // and file names
};

template <class Things>
std::string names_of(const Things& things) {
  std::string names;
  for (const auto& thing : things) names += (names.empty() ? "" : " ") + std::string{thing.name};
  return names;
}

/// What a value of this kind can be.
Words words_of(std::string kind) {
  if (kind.ends_with("...")) kind.erase(kind.size() - 3);
  if (kind == "FILE" || kind == "DIRECTORY") return {"", true};
  if (kind == "MODEL") return {names_of(networks()), true};
  if (kind == "NETWORK") return {names_of(networks()), false};
  if (kind == "CLUSTER" || kind == "PRESET")
    return {names_of(cluster_presets()) + " 2xV100 4xV100 8xV100 4xA100 8xA100 8xH100", kind == "CLUSTER"};
  if (kind == "PLACER") return {names_of(placers()), false};
  if (kind == "PLACER,") return {"all " + names_of(placers()), false};
  if (kind.find('|') == std::string::npos) return {};
  std::string list = kind;
  std::ranges::replace(list, '|', ' ');
  return {list, false};
}

/// `choices='...'; files=1`: the shell's side of Words.
std::string assignments(const Words& words) {
  return fmt::format("choices='{}'; files={}", words.list, words.files ? 1 : 0);
}

/// The body that both shells share: reads $verb (the first word) and $before (the word before the one that is being
/// completed), sets $choices and $files.
std::string decisions() {
  std::string text = "  case \"$verb:$before\" in\n";
  for (const VerbInfo& verb : verb_infos())
    for (const OptionInfo& option : verb.options) {
      if (option.value.empty()) continue;
      std::string pattern;
      for (const std::string& name : option.names)
        pattern += fmt::format("{}{}:{}", pattern.empty() ? "" : "|", verb.name, name);
      text += fmt::format("    {}) {}; return;;\n", pattern, assignments(words_of(option.value)));
    }
  text += "  esac\n  case \"$verb\" in\n";
  for (const VerbInfo& verb : verb_infos()) {
    std::string names = "--help";
    for (const OptionInfo& option : verb.options)
      for (const std::string& name : option.names)
        if (name.starts_with("--") && name != "--help") names += " " + name;
    text += fmt::format("    {}) case \"$current\" in -*) choices='{}'; files=0;; *) {};; esac;;\n", verb.name, names,
                        assignments(words_of(verb.operand)));
  }
  return text + "  esac\n";
}

std::string verb_names() {
  std::string names;
  for (const VerbInfo& verb : verb_infos()) names += verb.name + " ";
  return names + "--help --version";
}

std::string bash_script() {
  return fmt::format(R"(# Completion of trainyard for bash: . <(trainyard completion bash)
_trainyard_words() {{
{}}}
_trainyard() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" verb="${{COMP_WORDS[1]}}"
  local choices='' files=0
  if [ "$COMP_CWORD" -eq 1 ]; then
    choices='{}'
  else
    _trainyard_words
  fi
  COMPREPLY=($(compgen -W "$choices" -- "$current"))
  if [ "$files" -eq 1 ]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _trainyard trainyard
)",
                     decisions(), verb_names());
}

std::string zsh_script() {
  return fmt::format(R"(#compdef trainyard
# Completion of trainyard for zsh: . <(trainyard completion zsh), or as _trainyard in a folder of $fpath
_trainyard_words() {{
{}}}
_trainyard() {{
  local current="${{words[CURRENT]}}" before="${{words[CURRENT-1]}}" verb="${{words[2]}}" position=$CURRENT
  local choices='' files=0
  if (( position == 2 )); then
    choices='{}'
  else
    _trainyard_words
  fi
  compadd -- ${{=choices}}
  if (( files )); then _files; fi
}}
if [ "$funcstack[1]" = "_trainyard" ]; then _trainyard "$@"; else compdef _trainyard trainyard; fi
)",
                     decisions(), verb_names());
}

}  // namespace

int run_completion(const Arguments& arguments, Console& console) {
  static const std::array<std::string, 2> shells{"bash", "zsh"};
  const std::string& shell =
      one_of(only_operand(arguments, "SHELL: bash or zsh", "trainyard completion bash"), shells, "completion");
  if (console.json()) throw UsageError("a completion script has no JSON form", "leave --json out");
  console.print(shell == "bash" ? bash_script() : zsh_script());
  return kDone;
}

}  // namespace trainyard::program
