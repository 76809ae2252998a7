#include <fmt/format.h>

#include <sstream>

#include "command_line.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/zoo/zoo.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

struct Words {
  std::string list;    // words to offer
  bool files = false;  // also offer file names
};

template <class Things>
std::string names_of(const Things& things) {
  std::string names;
  for (const auto& thing : things) names += (names.empty() ? "" : " ") + std::string{thing.name};
  return names;
}

/// Whether the value is a comma-separated list: "CLUSTER,...", "step,hot,cold".
bool is_list(const std::string& kind) { return kind.ends_with(",...") || kind.ends_with(","); }

/// Completions of a value of this kind: "CLUSTER", "serial|fair", "all|PLACER,...".
Words words_of(std::string kind) {
  while (kind.ends_with('.') || kind.ends_with(',')) kind.pop_back();
  if (kind == "FILE" || kind == "DIRECTORY") return {"", true};
  if (kind == "MODEL") return {names_of(networks()), true};
  if (kind == "NETWORK") return {names_of(networks()), false};
  if (kind == "CLUSTER" || kind == "PRESET")
    return {names_of(cluster_presets()) + " 2xV100 4xV100 8xV100 4xA100 8xA100 8xH100", kind == "CLUSTER"};
  if (kind == "PLACER") return {names_of(placers()), false};
  if (kind.find('|') == std::string::npos) return {};
  Words words;
  std::istringstream alternatives{kind};
  for (std::string alternative; std::getline(alternatives, alternative, '|');) {
    Words some = words_of(alternative);
    if (some.list.empty() && !some.files) some.list = alternative;
    words.list += (words.list.empty() || some.list.empty() ? "" : " ") + some.list;
    words.files = words.files || some.files;
  }
  return words;
}

/// Words as shell assignments: `choices='...'; files=1`.
std::string assignments(const Words& words) {
  return fmt::format("choices='{}'; files={}", words.list, words.files ? 1 : 0);
}

/// Names of the parameters as words to complete: "batch= classes=".
template <class Parameters>
std::string keys_of(const Parameters& parameters) {
  std::string keys;
  for (const auto& parameter : parameters) keys += (keys.empty() ? "" : " ") + parameter.name + "=";
  return keys;
}

/// Body shared by the bash and zsh scripts. Reads $verb (the first word), $before (the word before the one being
/// completed), $current (that word), $network (the part before its colon) and $placer (the value of --placer); sets
/// $choices and $files.
std::string decisions() {
  std::string text = "  case \"$network\" in\n";
  for (const Network& network : networks())
    text += fmt::format("    {}) choices='{}'; files=0; return;;\n", network.name, keys_of(network.parameters));
  text += "  esac\n  if [ \"$before\" = --parameter ]; then files=0\n    case \"$placer\" in\n";
  for (const Placer& placer : placers())
    if (!placer.parameters.empty())
      text += fmt::format("      {}) choices='{}'; return;;\n", placer.name, keys_of(placer.parameters));
  text += "    esac\n  fi\n  case \"$verb:$before\" in\n";
  for (const VerbInfo& verb : verb_infos())
    for (const OptionInfo& option : verb.options) {
      if (option.value.empty() || option.names.empty()) continue;
      std::string pattern;
      for (const std::string& name : option.names)
        pattern += fmt::format("{}{}:{}", pattern.empty() ? "" : "|", verb.name, name);
      text += fmt::format("    {}) {}; return;;\n", pattern, assignments(words_of(option.value)));
    }
  text += "  esac\n  case \"$verb\" in\n";
  for (const VerbInfo& verb : verb_infos()) {
    std::string names = "--help", operand;
    for (const OptionInfo& option : verb.options) {
      if (option.names.empty()) operand = option.value;
      for (const std::string& name : option.names)
        if (name.starts_with("--") && name != "--help") names += " " + name;
    }
    text += fmt::format("    {}) case \"$current\" in -*) choices='{}'; files=0;; *) {};; esac;;\n", verb.name, names,
                        assignments(words_of(operand)));
  }
  return text + "  esac\n";
}

std::string verb_names() {
  std::string names;
  for (const VerbInfo& verb : verb_infos()) names += verb.name + " ";
  return names + "--help --version";
}

std::string bash_script() {
  // Bash itself breaks words at colons and equal signs, and not at commas.
  return fmt::format(R"(# Completion of trainyard for bash: . <(trainyard completion bash)
_trainyard_words() {{
{}}}
_trainyard() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" verb="${{COMP_WORDS[1]}}"
  local choices='' files=0 list='' network='' placer='' i
  for ((i = 2; i < COMP_CWORD; ++i)); do
    if [ "${{COMP_WORDS[i]}}" = --placer ]; then placer="${{COMP_WORDS[i+1]}}"; fi
  done
  i=$COMP_CWORD
  while [ "$i" -gt 3 ] && [ "${{COMP_WORDS[i-1]}}" = '=' ]; do i=$((i - 2)); done
  if [ "$current" = : ]; then network="$before"; current=''
  elif [ "${{COMP_WORDS[i-1]}}" = : ]; then network="${{COMP_WORDS[i-2]}}"; fi
  case "$current" in *,*) list="${{current%,*}},"; current="${{current##*,}}";; esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    choices='{}'
  else
    _trainyard_words
  fi
  local IFS=$'\n'
  COMPREPLY=($(compgen -P "$list" -W "${{choices// /$IFS}}" -- "$current"))
  if [ "$files" -eq 1 ]; then COMPREPLY+=($(compgen -P "$list" -f -- "$current")); fi
  case "${{COMPREPLY[0]}}" in *=) compopt -o nospace 2>/dev/null;; esac
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
  local choices='' files=0 network='' placer="${{words[${{words[(I)--placer]}}+1]}}"
  case "$current" in -*) ;; *:*) network="${{current%%:*}}";; esac
  if (( position == 2 )); then
    choices='{}'
  else
    _trainyard_words
  fi
  compset -P '*[:,]'
  case "$choices" in *=) compadd -S '' -- ${{=choices}};; *) compadd -- ${{=choices}};; esac
  if (( files )); then _files; fi
}}
if [ "$funcstack[1]" = "_trainyard" ]; then _trainyard "$@"; else compdef _trainyard trainyard; fi
)",
                     decisions(), verb_names());
}

std::string fish_script() {
  std::string text =
      "# Completion of trainyard for fish: trainyard completion fish | source\n"
      "complete -c trainyard -f\n";
  for (const Verb* verb : kVerbs)
    text += fmt::format("complete -c trainyard -n __fish_use_subcommand -a {} -d '{}'\n", verb->name, verb->summary);
  for (const VerbInfo& verb : verb_infos())
    for (const OptionInfo& option : verb.options) {
      const Words words = words_of(option.value);
      text += fmt::format("complete -c trainyard -n '__fish_seen_subcommand_from {}'", verb.name);
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty() && !option.names.empty()) text += " -r";
      if (words.files) text += " -F";
      if (!words.list.empty() && is_list(option.value))
        text += fmt::format(" -a '(__fish_append , {})'", words.list);
      else if (!words.list.empty())
        text += fmt::format(" -a '{}'", words.list);
      text += "\n";
    }
  return text;
}

struct CompletionVerb {
  std::vector<std::string> shell;

  void declare(OptionSet& set) {
    set.operands(shell, "bash|zsh|fish", "the shell", "trainyard completion bash", "SHELL: bash, zsh or fish");
  }

  int run(Console& console) const {
    static const std::vector<std::string> shells{"bash", "zsh", "fish"};
    static constexpr std::string (*kScripts[])() = {bash_script, zsh_script, fish_script};
    const std::size_t which = one_of(shell.front(), shells, "completion");
    if (console.json()) throw UsageError("a completion script has no JSON form", "leave --json out");
    console.print(kScripts[which](), false);
    return kDone;
  }
};

}  // namespace

const Verb kCompletion{"completion", "prints a completion script for a shell to source",
                       "trainyard completion bash > trainyard.bash", declare<CompletionVerb>};

}  // namespace trainyard::program
