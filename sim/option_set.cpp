#include "option_set.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kHelpWidth = 80, kNameWidth = 28;

/// "MODEL", "MODEL...", "[NETWORK]": an operand that a verb needs, takes several of, or can do without.
std::string operand_text(const std::string& kind) {
  return kind == "NETWORK" || kind == "PRESET" || kind == "PLACER" ? "[" + kind + "]" : kind;
}

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(kNameWidth);
    label("Positionals", "Operands");
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = "  ";
    if (!is_positional) text += make_option_name(option, false) + (option->get_type_name().empty() ? "" : " ");
    text += option->get_type_name();
    return beside(text, option->get_description());
  }

  std::string make_subcommand(const CLI::App* app) const override {
    return beside("  " + app->get_name(), app->get_description());
  }

  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), kHelpWidth);
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = "Usage: " + name;
    if (!app->get_subcommands({}).empty()) usage += " VERB";
    for (const CLI::Option* option : app->get_options({}))
      if (option->get_positional()) usage += " " + operand_text(option->get_type_name());
    return usage + " [options]\n";
  }

 private:
  static std::string beside(const std::string& name, const std::string& description) {
    const std::string text = wrapped(description, kHelpWidth, std::string(kNameWidth, ' '));
    return name.size() + 2 > kNameWidth ? name + "\n" + text : name + text.substr(name.size());
  }
};

/// CLI11 only splits the command line into words; the readers check values.
const CLI::callback_t kLeaveToReaders = [](const CLI::results_t&) { return true; };

void set_help(CLI::App& app, const std::string& examples) {
  app.set_help_flag("-h,--help", "prints this help");
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer("Example:\n  " + examples);
}

OptionInfo info_of(const CLI::Option& option) {
  OptionInfo info{.names = {}, .value = option.get_items_expected_max() > 0 ? option.get_type_name() : ""};
  for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
  return info;
}

}  // namespace

struct OptionSet::State {
  State(const std::string& verb, const std::string& summary) : app(summary, verb) {}

  CLI::App app;
  std::vector<std::function<void()>> readers;  // in the order of declaration
  std::vector<std::function<void()>> checks;
  std::vector<const std::string*> input_words;
  std::vector<const std::vector<std::string>*> input_lists;
  std::vector<std::pair<const Output*, std::string>> outputs;  // with the extension of their format
};

OptionSet::OptionSet(const std::string& verb, const std::string& summary, const std::string& example)
    : state_(std::make_unique<State>(verb, summary)) {
  set_help(state_->app, example);
  state_->app.allow_extras();  // refuse_unknown() suggests the nearest name
}

OptionSet::~OptionSet() = default;

std::string OptionSet::verb() const { return state_->app.get_name(); }

void OptionSet::option(const std::string& names, const std::string& kind, const std::string& help, Reader read,
                       bool repeatable) {
  CLI::Option* option = state_->app.add_option(names, kLeaveToReaders, help);
  // A missing value is left to the reader: CLI11's message says less, and it would take an option for the value.
  option->type_name(kind)->expected(0, 1)->multi_option_policy(repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                                          : CLI::MultiOptionPolicy::TakeLast);
  state_->readers.push_back([option, kind, repeatable, read = std::move(read)] {
    const std::string name = option->get_name();
    if (!repeatable && option->results().size() > 1) throw UsageError(fmt::format("{} is given twice", name));
    for (const std::string& value : option->results()) {
      const std::string example = fmt::format("as in {} {}", name, kind);
      if (value.empty()) throw UsageError(fmt::format("{} needs a value", name), example);
      if (value.size() > 1 && value[0] == '-' && value[1] >= '0' && value[1] <= '9')
        throw UsageError(fmt::format("{}: the value must not begin with '-', got '{}'", name, value), example);
      try {
        read(value, name);
      } catch (const InputError& error) {  // from a library function that reads words
        throw UsageError(error);
      }
    }
  });
}

void OptionSet::text(const std::string& names, std::string& to, const std::string& kind, const std::string& help) {
  option(names, kind, help, [&to](const std::string& text, const std::string&) { to = text; });
}

void OptionSet::flag(const std::string& names, bool& to, const std::string& help) {
  CLI::Option* option = state_->app.add_flag(names, help);
  state_->readers.push_back([option, &to] {
    to = !option->results().empty();
    for (const std::string& value : option->results())
      if (value != "true") throw UsageError(fmt::format("{} takes no value", option->get_name()));
  });
}

void OptionSet::input(const std::string& names, std::string& path, const std::string& help) {
  text(names, path, "FILE", help);
  reads(path);
}

void OptionSet::output(const std::string& names, Output& to, const std::string& help, const std::string& extension) {
  option(names, "FILE", help, [&to](const std::string& path, const std::string& option) { to = {path, option}; });
  state_->outputs.emplace_back(&to, extension);
}

void OptionSet::reads(const std::string& path) { state_->input_words.push_back(&path); }
void OptionSet::reads(const std::vector<std::string>& paths) { state_->input_lists.push_back(&paths); }

void OptionSet::operands(std::vector<std::string>& to, const std::string& kind, const std::string& help,
                         const std::string& example, const std::string& called) {
  CLI::Option* operands = state_->app.add_option("operands", kLeaveToReaders, help);
  operands->type_name(kind)->expected(0, 1 << 20)->allow_extra_args();  // without the last call CLI11 takes none
  state_->readers.push_back([this, operands, &to, kind, example, called] {
    to = operands->results();
    const std::string one = kind.substr(0, kind.find("...")), thing = called.empty() ? one : called;
    if (to.empty() && !example.empty())
      throw UsageError(fmt::format("{} needs a {}", verb(), thing), "for example: " + example);
    if (to.size() > 1 && one == kind)
      throw UsageError(fmt::format("{} takes one {}, got also '{}'", verb(), thing, to[1]));
  });
  reads(to);
}

void OptionSet::check(std::function<void()> check) { state_->checks.push_back(std::move(check)); }

bool OptionSet::parse(const std::vector<std::string>& words) {
  try {
    state_->app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 expects them in reverse
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::Error& error) {
    throw UsageError(error.what(), fmt::format("trainyard {} --help", verb()));
  }
  refuse_unknown();
  for (const auto& read : state_->readers) read();
  for (const auto& check : state_->checks) check();
  std::vector<Output> outputs;
  for (const auto& [output, extension] : state_->outputs)
    if (*output) outputs.push_back(*output);
  check_outputs(outputs, inputs());
  for (const auto& [output, extension] : state_->outputs)
    if (!extension.empty()) check_extension(*output, extension);
  return true;
}

std::vector<std::string> OptionSet::inputs() const {
  std::vector<std::string> inputs;
  for (const std::string* path : state_->input_words) inputs.push_back(*path);
  for (const auto* paths : state_->input_lists) inputs.insert(inputs.end(), paths->begin(), paths->end());
  return inputs;
}

void OptionSet::refuse_unknown() const {
  std::vector<std::string> extra = state_->app.remaining();
  std::erase(extra, "--");
  for (const std::string& word : extra) {
    if (word.size() < 2 || word.front() != '-') continue;
    const std::string name = word.substr(0, word[1] == '-' ? word.find('=') : 2);
    std::vector<std::string> names;
    for (const OptionInfo& option : infos()) names.insert(names.end(), option.names.begin(), option.names.end());
    std::string help = did_you_mean(name, names);
    if (help.empty()) help = fmt::format("`trainyard {} --help` lists the options", verb());
    throw UsageError(fmt::format("{} has no option '{}'", verb(), name), help);
  }
  if (!extra.empty())
    throw UsageError(fmt::format("{}: more operands than expected ({})", verb(), CLI::ExtrasError{extra}.what()),
                     fmt::format("trainyard {} --help", verb()));
}

std::vector<std::string> OptionSet::given() const {
  static const std::vector<std::string> every_verb{"--json", "--quiet", "--no-progress", "--color"};
  std::vector<std::string> names;
  for (const CLI::Option* option : state_->app.get_options())
    if (!option->get_positional() && !option->results().empty() &&
        std::ranges::find(every_verb, option->get_name()) == every_verb.end())
      names.push_back(option->get_name());
  return names;
}

bool OptionSet::takes_standard_output() const {
  return std::ranges::any_of(state_->outputs, [](const auto& output) { return output.first->path == "-"; });
}

std::string OptionSet::help() const { return state_->app.help("trainyard"); }

std::vector<OptionInfo> OptionSet::infos() const {
  std::vector<OptionInfo> infos;
  for (const CLI::Option* option : state_->app.get_options()) infos.push_back(info_of(*option));
  return infos;
}

std::string root_help(const std::vector<std::pair<std::string, std::string>>& verbs) {
  CLI::App root{"Predicts how long a training step takes on a set of devices, and places its ops.", "trainyard"};
  set_help(root,
           "trainyard compare resnet50 --cluster 4xV100\n\n`trainyard VERB --help` shows an example for each verb.");
  const std::string version_help = "prints the version";  // an lvalue: CLI11 takes anything else for a variable to set
  root.add_flag("--version", version_help);
  for (const auto& [name, summary] : verbs) root.add_subcommand(name, summary)->group("Verbs");
  return root.help();
}

}  // namespace trainyard::program
