#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "outputs.hpp"
#include "usage.hpp"

namespace trainyard::program {

/// An option as shell completion needs it. `value` describes its value: empty for a flag, "FILE", "MODEL", "CLUSTER",
/// "PLACER", a list "a|b|c", or any other word.
struct OptionInfo {
  std::vector<std::string> names;  // "--output", "-o"
  std::string value;
};

/// The type of an option's value, inside std::optional too.
template <class T>
struct ValueOf {
  using type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using type = T;
};

/// The options and operands of one verb. Each is declared with the variable that it sets, in the order of the help;
/// parse() reads the command line into these variables. `names` is "--output" or "-o,--output"; `kind` is the name of
/// the value in help and completion. Only option_set.cpp depends on CLI11.
class OptionSet {
 public:
  OptionSet(const std::string& verb, const std::string& summary, const std::string& example);
  ~OptionSet();

  std::string verb() const;

  /// Reads the text of a value; throws UsageError or InputError.
  using Reader = std::function<void(const std::string& text, const std::string& option)>;
  void option(const std::string& names, const std::string& kind, const std::string& help, Reader read,
              bool repeatable = false);

  template <class T, class Convert>
  void value(const std::string& names, T& to, const std::string& kind, const std::string& help, Convert convert) {
    option(names, kind, help,
           [&to, convert](const std::string& text, const std::string& option) { to = convert(text, option); });
  }
  template <class T, class Convert>
  void values(const std::string& names, std::vector<T>& to, const std::string& kind, const std::string& help,
              Convert convert) {
    option(
        names, kind, help,
        [&to, convert](const std::string& text, const std::string& option) { to.push_back(convert(text, option)); },
        true);
  }
  void text(const std::string& names, std::string& to, const std::string& kind, const std::string& help);
  void flag(const std::string& names, bool& to, const std::string& help);

  /// Declares a whole number of at least `least`; `to` is an integer or an optional one.
  template <class T>
  void number(const std::string& names, T& to, const std::string& help, std::int64_t least = 1) {
    option(names, "N", help, [&to, least](const std::string& text, const std::string& option) {
      using Value = typename ValueOf<T>::type;
      const std::int64_t number = whole_number(text, option, least);
      if (!std::in_range<Value>(number))
        throw UsageError(option + ": " + text + " is too large",
                         "at most " + std::to_string(std::numeric_limits<Value>::max()));
      to = static_cast<Value>(number);
    });
  }

  /// Declares a choice among names; `kind` defaults to "a|b|c".
  template <class T>
  void choice(const std::string& names, T& to,
              const std::vector<std::pair<std::string, typename ValueOf<T>::type>>& choices, const std::string& help,
              const std::string& kind = "") {
    std::vector<std::string> words;
    std::string all;
    for (const auto& choice : choices) {
      words.push_back(choice.first);
      all += (all.empty() ? "" : "|") + choice.first;
    }
    option(names, kind.empty() ? all : kind, help,
           [&to, words, choices](const std::string& text, const std::string& option) {
             to = choices[one_of(text, words, option)].second;
           });
  }

  // Files. parse() refuses an output that is also an input, and two outputs that are one file. `reads` declares inputs
  // that do not have an option to themselves.
  void input(const std::string& names, std::string& path, const std::string& help);
  /// `extension` is that of the format ("json"); a name with the extension of another format is refused. If it is
  /// empty, the verb decides by the file's extension.
  void output(const std::string& names, Output& to, const std::string& help, const std::string& extension = "");
  void reads(const std::string& path);
  void reads(const std::vector<std::string>& paths);
  /// All declared words that may name inputs, for a verb that writes more files than its outputs.
  std::vector<std::string> inputs() const;

  /// Declares the positional arguments, which count as inputs. `kind` is "THING", or "THING..." if several may be
  /// given. At least one is required if `example` is not empty. Error messages call it `called` (default: THING).
  void operands(std::vector<std::string>& to, const std::string& kind, const std::string& help,
                const std::string& example = "", const std::string& called = "");

  /// Adds a check across options. Checks run in the order of declaration, after all values are set.
  void check(std::function<void()> check);

  /// Parses the words after the verb. Returns false if help is asked for. Throws UsageError for an unknown option (with
  /// the nearest one), a missing or wrong value, a missing or unexpected operand, and an output that is an input or
  /// another output. Throws InputError if an output cannot be written.
  bool parse(const std::vector<std::string>& words);
  /// The verb's own options on the command line ("--output"), without those that all verbs share.
  std::vector<std::string> given() const;
  /// Whether an output is "-".
  bool takes_standard_output() const;

  std::string help() const;
  /// All options for completion; an operand has no names.
  std::vector<OptionInfo> infos() const;

 private:
  void refuse_unknown() const;

  struct State;
  std::unique_ptr<State> state_;
};

/// Help of the whole program; a verb is a pair of name and summary.
std::string root_help(const std::vector<std::pair<std::string, std::string>>& verbs);

}  // namespace trainyard::program
