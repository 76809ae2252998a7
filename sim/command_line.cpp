#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string_view>

#include "build_info.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"

// The only file that sees CLI11. Every value is taken as text, so that verbs can say what is wrong with it; names are
// checked here before CLI11 parses, because it would ask for what is missing before it tells what is misspelt.
namespace trainyard::program {
namespace {

constexpr std::size_t kHelpWidth = 80, kNameWidth = 28;

/// "MODEL", "MODEL...", "[NETWORK]": an operand that a verb needs, takes several of, or can do without.
std::string operand_text(const std::string& kind) {
  return kind == "NETWORK" || kind == "PRESET" || kind == "PLACER" ? "[" + kind + "]" : kind;
}

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kNameWidth); }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = "  ";
    if (!is_positional) text += make_option_name(option, false) + (option->get_type_name().empty() ? "" : " ");
    text += option->get_type_name();
    const std::string indent(kNameWidth, ' ');
    const std::string description = wrapped(option->get_description(), kHelpWidth, indent);
    if (text.size() + 2 > kNameWidth) return text + "\n" + description;
    return text + description.substr(text.size());
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    const bool is_root = app->get_parent() == nullptr;
    std::string usage = "Usage: " + name;
    if (is_root) usage += " VERB";
    for (const CLI::Option* option : app->get_options({}))
      if (option->get_positional()) usage += " " + operand_text(option->get_type_name());
    return usage + " [options]\n";
  }
};

void add(CLI::App& verb, const std::string& names, std::string& value, const std::string& kind,
         const std::string& help) {
  // A repeated option would be silently ignored or joined; CLI11's own answer to it is an error.
  verb.add_option(names, value, help)->type_name(kind);
}
void add(CLI::App& verb, const std::string& names, std::vector<std::string>& values, const std::string& kind,
         const std::string& help) {
  verb.add_option(names, values, help)->type_name(kind)->expected(1)->take_all();
}
/// More operands than a verb takes are left to the verb to complain about.
void add_operands(CLI::App& verb, std::vector<std::string>& values, const std::string& kind, const std::string& help) {
  verb.add_option("operands", values, help)->type_name(kind)->expected(0, 1 << 20);
}

void add_model_options(CLI::App& verb, Arguments& to) {
  add(verb, "--training", to.training, "sgd|momentum|adam|none",
      "the optimizer of the training step; none: forward only (default: adam)");
  add(verb, "--granularity", to.granularity, "op|fine",
      "one op per operator, or each as the kernels it runs (default: op)");
  add(verb, "--batch", to.batch, "N", "samples per step");
  add(verb, "--precision", to.precision, "float32|bfloat16",
      "of parameters and activations that the model has in float32 (default: as the model has them)");
  add(verb, "--bind", to.bind, "NAME=N", "the size of a dimension that an ONNX file leaves open; repeatable");
}

void add_cluster_options(CLI::App& verb, Arguments& to, bool several = false) {
  add(verb, "--cluster", to.cluster, several ? "CLUSTER,..." : "CLUSTER",
      several ? "the devices: built-in names (trainyard clusters) or TOML files"
              : "the devices: a built-in name (trainyard clusters) or a TOML file");
  add(verb, "--memory", to.memory, "SIZE", "what if every device held this much, as in 16GiB");
  add(verb, "--costs", to.costs, "FILE", "a calibration: op and transfer times as measured (trainyard calibrate)");
  add(verb, "--co-run", to.co_run, "N", "what if ops ran on N devices with one memory at once (with --costs)");
  add(verb, "--scale", to.scale, "compute=X,link=Y", "what if devices or links were X or Y times as fast");
  add(verb, "--sharing", to.sharing, "serial|fair|none",
      "what if transfers took turns on links, shared them fairly, or never met");
}

void add_placer_options(CLI::App& verb, Arguments& to) {
  add(verb, "--placer", to.placer, "PLACER", "the algorithm that makes the schedule (default: heft)");
  add(verb, "--parameter", to.parameters, "KEY=VALUE", "of the placer (trainyard placers NAME); repeatable");
}

void add_policy_option(CLI::App& verb, Arguments& to) {
  add(verb, "--policy", to.policy, "FILE", "what the placer learned before (trainyard train): no search");
}

void add_coarsen_option(CLI::App& verb, Arguments& to) {
  add(verb, "--coarsen", to.coarsen, "RULE", "makes the graph smaller first: pesto:N, merge:N, talos or groups");
}

void add_noise_options(CLI::App& verb, Arguments& to) {
  add(verb, "--noise", to.noise, "SHARE",
      "what if op times scattered, as in 5%, or by op type as in Conv=10%,default=3%");
  add(verb, "--samples", to.samples, "N", "how many runs with noise (default: 1000)");
}

void add_search_options(CLI::App& verb, Arguments& to, const std::string& threads_for = "of placers that search") {
  add(verb, "--time", to.time, "TIME", "how long placers that search go on, as in 10s");
  add(verb, "--evaluations", to.evaluations, "N", "the same in evaluated schedules: always the same result");
  add(verb, "--threads", to.threads, "N", threads_for + "; the result is the same (default: one per core)");
}

void add_picture_options(CLI::App& verb, Arguments& to) {
  add(verb, "--trace", to.trace, "FILE", "writes the timeline for ui.perfetto.dev; .gz compresses");
  add(verb, "--flows", to.flows, "critical|all|none", "which dependencies the trace draws (default: critical)");
  add(verb, "--report", to.report, "FILE", "writes the result as one HTML page");
}

void add_run_options(CLI::App& verb, Arguments& to) {
  add(verb, "--backend", to.backend, "cpu|cuda|cuda-graph|recording",
      "what runs the ops (default: cpu; cuda-graph: GPUs, each step as one CUDA graph; recording: nothing does)");
  add(verb, "--rounds", to.rounds, "N", "of 2 warm steps and 3 measured ones (default: 6)");
}

void add_common_options(CLI::App& verb, Arguments& to) {
  verb.add_flag("--json", to.json, "prints one JSON object, errors included");
  verb.add_flag("-q,--quiet", to.quiet, "only results and errors");
  verb.add_flag("--no-progress", to.no_progress, "no progress line");
  add(verb, "--color", to.color, "auto|always|never", "colours (default: auto)");
}

/// The whole grammar.
class Grammar {
 public:
  Grammar() {
    root_.set_help_flag("-h,--help", "prints this");
    root_.add_flag("--version", version_, "prints the version");
    root_.formatter(std::make_shared<HelpFormatter>());
    root_.get_formatter()->label("Positionals", "Operands");
    root_.footer(
        "Example:\n  trainyard compare resnet50 --cluster 4xV100\n\n`trainyard VERB --help` has one for each.");

    CLI::App& import = verb("import", "reads a network or a graph, and writes it as a training graph",
                            "trainyard import resnet50 --batch 32 --training adam -o resnet50.json");
    add_operands(import, arguments_.operands, "FILE", "an ONNX file, a graph file, or a built-in network");
    add_model_options(import, arguments_);
    add(import, "-o,--output", arguments_.output, "FILE", "the graph; .gz compresses, - is standard output");

    CLI::App& exporting = verb("export", "writes the problem of placement and order for other solvers",
                               "trainyard export resnet18:batch=8 --cluster 2xV100 --coarsen pesto:20 -o model.lp");
    add_operands(exporting, arguments_.operands, "MODEL", "a built-in network (trainyard models), or a file");
    add_cluster_options(exporting, arguments_);
    add_coarsen_option(exporting, arguments_);
    add_model_options(exporting, arguments_);
    add(exporting, "-o,--output", arguments_.output, "FILE",
        "an integer program (model.lp), or a MiniZinc model (model.mzn); .gz compresses");

    CLI::App& simulate = verb("simulate", "predicts the time and the memory of one step",
                              "trainyard simulate resnet50 --cluster 4xV100 --placer heft");
    add_operands(simulate, arguments_.operands, "MODEL...", "built-in networks (trainyard models), or files, at once");
    add_cluster_options(simulate, arguments_);
    add(simulate, "--schedule", arguments_.schedule, "FILE", "the schedule to run, in place of a placer");
    add_placer_options(simulate, arguments_);
    add_policy_option(simulate, arguments_);
    add(simulate, "--seed", arguments_.seed, "N", "of the random numbers of placer and noise (default: 1)");
    add(simulate, "--steps", arguments_.steps, "N", "runs N steps in sequence, tied by their updates alone");
    add_search_options(simulate, arguments_, "of the search and of the runs with noise");
    add_noise_options(simulate, arguments_);
    add_model_options(simulate, arguments_);
    add_picture_options(simulate, arguments_);
    add(simulate, "-o,--output", arguments_.output, "FILE", "the timeline; .gz compresses, - is standard output");

    CLI::App& place =
        verb("place", "finds a schedule, and writes it", "trainyard place resnet50 --cluster 4xV100 -o schedule.json");
    add_operands(place, arguments_.operands, "MODEL...", "built-in networks (trainyard models), or files, at once");
    add_cluster_options(place, arguments_);
    add_placer_options(place, arguments_);
    add_coarsen_option(place, arguments_);
    add(place, "--objective", arguments_.objective, "makespan|max-load|completion",
        "the time of one step, per step of a full pipeline, or until each model ends, summed (default: makespan)");
    add_policy_option(place, arguments_);
    add(place, "--seed", arguments_.seed, "N", "of the placer's random numbers (default: 1)");
    add_search_options(place, arguments_);
    add_model_options(place, arguments_);
    add_picture_options(place, arguments_);
    add(place, "-o,--output", arguments_.output, "FILE", "the schedule; .gz compresses, - is standard output");

    CLI::App& train = verb("train", "learns a placement policy, and writes it",
                           "trainyard train resnet18 --placer placeto --cluster 4xV100 --updates 3 -o policy.json");
    add_operands(train, arguments_.operands, "MODEL...", "built-in networks (trainyard models), or files");
    add_cluster_options(train, arguments_);
    add(train, "--placer", arguments_.placer, "PLACER", "the algorithm that learns (default: placeto)");
    add(train, "--time", arguments_.train_time, "TIME", "how long it learns, as in 2m");
    add(train, "--updates", arguments_.updates, "N", "how often the policy is improved (default: 100)");
    add(train, "--seed", arguments_.seed, "N", "of the random numbers (default: 1)");
    add_model_options(train, arguments_);
    add(train, "-o,--output", arguments_.output, "FILE", "the policy; .gz compresses, - is standard output");

    CLI::App& compare = verb("compare", "ranks placers by the step time that they reach",
                             "trainyard compare alexnet --cluster 4xV100 --placers all");
    add_operands(compare, arguments_.operands, "MODEL...", "built-in networks (trainyard models), or files");
    add_cluster_options(compare, arguments_, true);
    add(compare, "--placers", arguments_.placers, "PLACER,...",
        "the algorithms, or all but those that train (default: all)");
    add_coarsen_option(compare, arguments_);
    add(compare, "--objective", arguments_.objective, "makespan|completion",
        "ranks by the step time, or, all models at once, by the sum of the times until each ends");
    add(compare, "--seed", arguments_.seed, "N", "of the random numbers of placers and noise (default: 1)");
    add(compare, "--repeats", arguments_.repeats, "N",
        "runs each placer with N seeds, shows the middle and the spread");
    add_search_options(compare, arguments_, "of searches and of the runs with noise");
    add_noise_options(compare, arguments_);
    add_model_options(compare, arguments_);
    add(compare, "--csv", arguments_.csv, "FILE", "writes the table as CSV; - is standard output");
    add(compare, "--markdown", arguments_.markdown, "FILE", "writes the tables in Markdown; - is standard output");
    add_picture_options(compare, arguments_);

    CLI::App& explain =
        verb("explain", "says why a step takes as long as it does, and what a better machine would give",
             "trainyard explain resnet50 --cluster 4xV100 --placer etf");
    add_operands(explain, arguments_.operands, "MODEL", "a built-in network (trainyard models), or a file");
    add_cluster_options(explain, arguments_);
    add(explain, "--schedule", arguments_.schedule, "FILE", "the schedule to explain, in place of a placer");
    add_placer_options(explain, arguments_);
    add(explain, "--seed", arguments_.seed, "N", "of the placer's random numbers (default: 1)");
    add(explain, "--faster", arguments_.faster, "NAME=2x",
        "what if a device, a kind of device, a link or the links between two devices (gpu0-gpu1) were faster; "
        "repeatable; several at once with commas");
    add(explain, "--larger", arguments_.larger, "NAME=2x", "what if a device, or a kind, had more memory; repeatable");
    explain.add_flag("--place-again", arguments_.place_again, "also lets the placer place on each changed machine");
    add(explain, "--top", arguments_.top, "N", "how many rows each table has (default: 10)");
    add_search_options(explain, arguments_);
    add_model_options(explain, arguments_);

    CLI::App& profile = verb("profile", "measures op and transfer times in a training step on this machine",
                             "trainyard profile lenet:batch=8 --backend cpu --rounds 2 -o profile.json");
    add_operands(profile, arguments_.operands, "MODEL", "a built-in network (trainyard models), or an ONNX file");
    add_run_options(profile, arguments_);
    add_cluster_options(profile, arguments_);
    add(profile, "--schedule", arguments_.schedule, "FILE", "measures under this schedule too");
    add(profile, "--mode", arguments_.modes, "step,hot,cold",
        "in a step, and besides alone with warm or cold caches (default: step)");
    add(profile, "--threads", arguments_.threads, "N",
        "and alone on the number of threads up to N that is best for each op");
    add(profile, "--links", arguments_.links, "emulated|memory|none",
        "the links as the backend runs them, or copies between memories (default: emulated)");
    add(profile, "--time", arguments_.time, "TIME", "how long steps and each link may take (default: 20s, and 4s)");
    add_model_options(profile, arguments_);
    add(profile, "-o,--output", arguments_.output, "FILE", "the profile; .gz compresses, - is standard output");

    CLI::App& calibrate = verb("calibrate", "fits op and link times to profiles, for --costs",
                               "trainyard profile lenet:batch=8 --rounds 2 -o profile.json &&\n"
                               "  trainyard calibrate profile.json -o calibration.json");
    add_operands(calibrate, arguments_.operands, "FILE...", "profiles of one machine");
    add(calibrate, "-o,--output", arguments_.output, "FILE", "the calibration; .gz compresses, - is standard output");
    add(calibrate, "--seed", arguments_.seed, "N", "of the bootstrap intervals (default: 1)");
    calibrate.add_flag("--accept", arguments_.accept, "writes the calibration though a link does not fit");

    CLI::App& validate = verb("validate", "runs a schedule on this machine, and says how wrong its prediction was",
                              "trainyard place lenet:batch=8 --cluster 2xcpu-core -o schedule.json &&\n"
                              "  trainyard validate schedule.json --model lenet:batch=8 --cluster 2xcpu-core");
    add_operands(validate, arguments_.operands, "SCHEDULE", "the schedule to run; or what --schedule schedules");
    add(validate, "--model", arguments_.model, "MODEL", "what it schedules (default: the graph that it names)");
    add(validate, "--schedule", arguments_.schedule, "FILE", "the schedule to run, where the operand is a MODEL");
    add(validate, "--placer", arguments_.placer, "NAME", "makes the schedule of a MODEL without one (default: heft)");
    add(validate, "--time", arguments_.time, "TIME", "no round begins later (default: 20s)");
    add_run_options(validate, arguments_);
    add(validate, "--rank", arguments_.rank, "N", "runs N placements, and says whether they are predicted in order");
    add_cluster_options(validate, arguments_);
    add_model_options(validate, arguments_);
    add(validate, "--report", arguments_.report, "FILE", "writes both timelines as one HTML page");

    CLI::App& demo = verb("demo", "profiles, calibrates, places and validates on this machine, in about a minute",
                          "trainyard demo --report demo.html");
    add(demo, "--report", arguments_.report, "FILE", "writes the runs as one HTML page");

    CLI::App& models = verb("models", "lists the built-in networks", "trainyard models");
    add_operands(models, arguments_.operands, "NETWORK",
                 "one of them, with its parameters; family:NAME: networks drawn at random from a family");
    add(models, "--count", arguments_.count, "N", "members of the family (default: 32)");
    add(models, "--seed", arguments_.seed, "N", "of the family's random numbers (default: 1)");
    add(models, "-o,--output", arguments_.output, "DIRECTORY", "writes each member's training graph into it");
    add_operands(verb("clusters", "lists the built-in clusters", "trainyard clusters 4xV100"), arguments_.operands,
                 "PRESET", "one of them, with its devices and links");
    add_operands(verb("placers", "lists the placement algorithms", "trainyard placers heft"), arguments_.operands,
                 "PLACER", "one of them, with its parameters and its source");

    CLI::App& check = verb("check", "says all that is wrong with files",
                           "trainyard import resnet50 -o resnet50.json && trainyard check resnet50.json");
    add_operands(check, arguments_.operands, "FILE...",
                 "graphs, clusters, ONNX files, schedules, timelines, profiles, calibrations");
    add(check, "--model", arguments_.model, "MODEL", "what schedules and timelines are checked against");
    add_cluster_options(check, arguments_);
    add_model_options(check, arguments_);

    verb("doctor", "says what this build can do, and what would add the rest", "trainyard doctor");
    add_operands(verb("completion", "prints the completion script of a shell, to be sourced by it",
                      "trainyard completion bash > trainyard.bash"),
                 arguments_.operands, "bash|zsh", "the shell");
  }

  const std::vector<VerbInfo>& infos() const { return infos_; }
  std::string root_help() const { return root_.help(); }
  std::string verb_help(const std::string& name) const { return root_.get_subcommand(name)->help("trainyard"); }

  /// Reads the words; throws CLI11's errors.
  Arguments parse(const std::vector<std::string>& words) {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
    root_.parse(std::move(reversed));
    arguments_.verb = words.front();
    return arguments_;
  }

  /// Call once, after all verbs are there.
  void finish() {
    for (CLI::App* verb : root_.get_subcommands({})) {
      add_common_options(*verb, arguments_);
      VerbInfo info{.name = verb->get_name(), .help = verb->get_description()};
      for (const CLI::Option* option : verb->get_options({})) {
        if (option->get_positional()) {
          info.operand = option->get_type_name();
          continue;
        }
        OptionInfo known{.value = option->get_items_expected_max() > 0 ? option->get_type_name() : "",
                         .help = option->get_description(),
                         .repeatable = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll};
        for (const std::string& name : option->get_lnames()) known.names.push_back("--" + name);
        for (const std::string& name : option->get_snames()) known.names.push_back("-" + name);
        info.options.push_back(std::move(known));
      }
      infos_.push_back(std::move(info));
    }
  }

 private:
  CLI::App& verb(const std::string& name, const std::string& description, const std::string& example) {
    CLI::App* added = root_.add_subcommand(name, description);
    added->group("Verbs");
    added->set_help_flag("-h,--help", "prints this");
    added->footer("Example:\n  " + example);
    return *added;
  }

  Arguments arguments_;
  CLI::App root_{"Predicts how long a training step takes on a set of devices, and places its ops.", "trainyard"};
  std::vector<VerbInfo> infos_;
  bool version_ = false;
};

std::unique_ptr<Grammar> make_grammar() {
  auto grammar = std::make_unique<Grammar>();
  grammar->finish();
  return grammar;
}

const OptionInfo& option_named(const VerbInfo& verb, const std::string& word) {
  for (const OptionInfo& option : verb.options)
    if (std::ranges::find(option.names, word) != option.names.end()) return option;
  std::vector<std::string> names;
  for (const OptionInfo& option : verb.options) names.insert(names.end(), option.names.begin(), option.names.end());
  std::string help = did_you_mean(word, names);
  if (help.empty()) help = fmt::format("`trainyard {} --help` lists the options", verb.name);
  throw UsageError(fmt::format("{} has no option '{}'", verb.name, word), help);
}

/// Throws where an option is not one of the verb's, or given twice. True where help is asked for.
bool scan_options(const VerbInfo& verb, const std::vector<std::string>& words) {
  std::vector<const OptionInfo*> given;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") return false;
    if (word.size() < 2 || word.front() != '-') continue;
    if (word == "--help" || word == "-h") return true;
    // "--name=value" and "-xvalue" hold their value; otherwise it is the next word.
    const bool is_long = word[1] == '-';
    const std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    const bool holds_value = name.size() < word.size();
    const OptionInfo& option = option_named(verb, name);
    if (option.value.empty()) {
      if (holds_value && is_long) throw UsageError(fmt::format("{} takes no value", name));
      continue;
    }
    if (!option.repeatable && std::ranges::find(given, &option) != given.end())
      throw UsageError(fmt::format("{} is given twice", name));
    given.push_back(&option);
    if (holds_value) continue;
    if (++i == words.size() || words[i].starts_with("--"))
      throw UsageError(fmt::format("{} needs a value", word), fmt::format("as in {} {}", word, option.value));
    if (words[i].size() > 1 && words[i].front() == '-')
      throw UsageError(fmt::format("{}: a value does not begin with '-', got '{}'", word, words[i]),
                       fmt::format("as in {} {}", word, option.value));
  }
  return false;
}

}  // namespace

std::vector<VerbInfo> verb_infos() { return make_grammar()->infos(); }

Command parse_command_line(const std::vector<std::string>& words) {
  const auto grammar = make_grammar();
  if (words.empty())
    throw UsageError("a verb is missing",
                     "`trainyard --help` lists them; to begin with: trainyard compare resnet50 "
                     "--cluster 4xV100");
  std::string first = words.front();
  const bool asks_help = first == "help";
  if (first == "--help" || first == "-h" || (asks_help && words.size() == 1)) return {.text = grammar->root_help()};
  if (first == "--version") return {.text = fmt::format("trainyard {}\n", kVersion)};
  if (asks_help) first = words[1];

  const auto verb = std::ranges::find(grammar->infos(), first, &VerbInfo::name);
  if (verb == grammar->infos().end()) {
    if (first.starts_with('-'))
      throw UsageError(fmt::format("'{}' stands where the verb should", first), "options follow the verb");
    std::vector<std::string> names;
    for (const VerbInfo& info : grammar->infos()) names.push_back(info.name);
    std::string help = did_you_mean(first, names);
    if (help.empty()) help = fmt::format("the verbs are {}", fmt::join(names, ", "));
    throw UsageError(fmt::format("'{}' is not a verb", first), help);
  }
  if (asks_help || scan_options(*verb, words)) return {.text = grammar->verb_help(verb->name)};
  try {
    return {.arguments = grammar->parse(words)};
  } catch (const CLI::ExtrasError& error) {
    throw UsageError(fmt::format("{}: more operands than expected ({})", first, error.what()),
                     fmt::format("trainyard {} --help", first));
  } catch (const CLI::Error& error) {
    throw UsageError(error.what(), fmt::format("trainyard {} --help", first));
  }
}

}  // namespace trainyard::program
