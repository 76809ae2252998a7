#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "inputs.hpp"
#include "print/result_json.hpp"
#include "runs.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/io/formats/calibration_file.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/formats/plan_file.hpp"
#include "trainyard/io/formats/policy_file.hpp"
#include "trainyard/io/formats/profile_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/formats/timeline_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/pytorch/foreign_graph.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/steps.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// Result of checking one file.
struct CheckResult {
  std::string file;
  std::string kind = {};  // "graph", "cluster", "ONNX", "schedule", "timeline"
  std::string what = {};  // its size, in words
  std::vector<std::string> notes = {};
  std::vector<Finding> findings = {};  // empty if the file is valid
};

/// Kind of the first format tag in the text: "graph" for "trainyard-graph/1"; empty without a tag.
std::string tagged_kind(std::string_view text) {
  constexpr std::string_view tag = "\"trainyard-";
  const std::size_t key = text.find("\"format\"");
  const std::size_t at = text.find(tag, key == std::string_view::npos ? text.size() : key);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + tag.size());
  return std::string{text.substr(0, text.find_first_of("/\""))};
}

bool ends_with(const std::string& file, std::string_view end) { return std::string_view{file}.ends_with(end); }

/// Inputs against which files are checked.
struct Grounds {
  ProblemOptions inputs = {};
  std::string schedule = {};  // schedule that the timelines run
  std::size_t steps = 0;      // number of steps of the timelines
};

/// Checks files one by one. A problem needed to check schedules and timelines is built once, on first use.
class Checker {
 public:
  explicit Checker(const Grounds& grounds) : grounds_(grounds) {}

  /// Whether the option affected the check of some file.
  bool used(const std::string& option) const {
    static const std::vector<std::string> of_onnx{"--training", "--granularity", "--batch", "--precision", "--bind"};
    if (option == "--schedule" || option == "--steps") return timelines_;
    return schedules_ || timelines_ || (onnx_ && std::ranges::find(of_onnx, option) != of_onnx.end());
  }

  CheckResult check(const std::string& file) {
    CheckResult result{.file = file};
    try {
      check(file, result);
    } catch (const InputError& error) {
      result.findings = error.findings();
      for (Finding& finding : result.findings)
        if (finding.at.file.empty()) finding.at.file = input_name(file);
    }
    return result;
  }

 private:
  void check(const std::string& file, CheckResult& result) {
    if (ends_with(file, ".toml")) {
      result.kind = "cluster";
      const ClusterSpec spec = read_cluster(file);
      result.what = counted(spec.devices.size(), "device");
      return;
    }
    if (ends_with(file, ".onnx") || ends_with(file, ".onnx.gz")) {
      result.kind = "ONNX";
      onnx_ = true;
      const LoadedModel model = load_model(file, grounds_.inputs.training);
      result.what = fmt::format("{} in a training step", counted(model.graph.op_count(), "op"));
      result.notes = model.notes;
      return;
    }
    if (const auto foreign = read_foreign_graph(file)) {
      result.kind = "graph";
      result.what = size_of(foreign->graph);
      result.notes = foreign->notes;
      return;
    }
    const std::string text = read_input(file);
    result.kind = tagged_kind(text);
    const std::string name = input_name(file);
    if (result.kind == "schedule" || result.kind == "timeline") {
      const bool is_schedule = result.kind == "schedule";
      (is_schedule ? schedules_ : timelines_) = true;
      const bool has_schedule = !is_schedule && !grounds_.schedule.empty();
      if (has_schedule && schedule_text_.empty()) schedule_text_ = read_input(grounds_.schedule);
      const ProblemOptions of = what_it_is_of(result.kind, has_schedule ? schedule_text_ : text);
      const Problem& problem = the_problem(of);
      if (is_schedule) {
        const Schedule schedule = parse_schedule(text, name, problem);
        const Nanoseconds makespan = simulated_makespan(scheduled_problem(problem, schedule), schedule);
        if (std::string other = other_time(text, problem, makespan); !other.empty())
          result.notes.push_back(std::move(other));
      } else if (has_schedule)
        check_timeline(text, name, run_problem(problem), grounds_.schedule);
      else
        check_timeline(text, name, problem, of.models.front());
      result.what = fmt::format("fits {} and {}", of.models.front(), of.cluster);
      return;
    }
    if (result.kind == "profile") {
      const Profile profile = parse_profile(text, name);
      result.what = fmt::format("{}, {}", counted(profile.ops.size(), "measured op"),
                                counted(profile.links.size(), "measured link"));
      return;
    }
    if (result.kind == "calibration") {
      const Calibration calibration = parse_calibration(text, name);
      result.what =
          fmt::format("{}, {}", counted(calibration.ops.size(), "op time"), counted(calibration.links.size(), "link"));
      if (const auto collectives = static_cast<std::int64_t>(calibration.collectives.size()); collectives > 0)
        result.what += fmt::format(", {}", counted(collectives, "collective"));
      return;
    }
    if (result.kind == "plan") {
      const PlanFile plan = parse_plan(text, name);
      result.what = counted(plan.begins.size() + 1, "stage");
      return;
    }
    if (result.kind == "policy") {
      const LearnedPolicy policy = parse_policy(text, name);
      result.what = fmt::format("{}, learned by {}", counted(policy.devices.size(), "device"), policy.placer);
      return;
    }
    if (!result.kind.empty() && result.kind != "graph")
      refuse("format", fmt::format("'trainyard-{}' is not a known file format", result.kind),
             "check reads graphs, schedules, timelines, plans, profiles, calibrations, policies, clusters (.toml) and "
             ".onnx");
    result.kind = "graph";
    const Graph graph = parse_graph(text, name);
    result.what = size_of(graph);
  }

  static std::string size_of(const Graph& graph) {
    return fmt::format("{}, {}", counted(graph.op_count(), "op"), counted(graph.tensor_count(), "tensor"));
  }

  /// Completes model and cluster of the command line by those that the file names.
  ProblemOptions what_it_is_of(const std::string& kind, const std::string& text) const {
    ProblemOptions of = grounds_.inputs;
    if (of.models.empty()) of.models = {named_in(text, "graph")};
    if (of.cluster.empty()) of.cluster = named_in(text, "cluster");
    const bool no_model = of.models.front().empty();
    if (no_model || of.cluster.empty())
      refuse(no_model ? "no-model" : "no-cluster",
             fmt::format("the {} does not name its {}", kind, no_model ? "model" : "cluster"),
             no_model ? "give --model" : "give --cluster");
    return of;
  }

  const Problem& the_problem(const ProblemOptions& of) {
    const auto [at, is_new] = problems_.try_emplace({of.models.front(), of.cluster});
    if (is_new || !at->second) try {
        Machine machine = load_machine(of.cluster, of.machine);
        LoadedModel model = load_models(of.models, of.training);
        at->second.emplace(std::move(model.graph), std::move(machine.cluster), machine.costs);
      } catch (const UsageError& error) {  // names in the file, unless both were given
        if (!grounds_.inputs.models.empty() && !grounds_.inputs.cluster.empty()) throw;
        refuse(
            "unknown-model",
            fmt::format("its model is '{}' and its cluster is '{}': {}", of.models.front(), of.cluster, error.what()),
            "give --model and --cluster as when it was made");
      }
    return *at->second;
  }

  /// The problem after the rewrites of --schedule, repeated for --steps.
  Problem run_problem(const Problem& problem) const {
    const Schedule schedule = parse_schedule(schedule_text_, input_name(grounds_.schedule), problem);
    return grounds_.steps > 0 ? simulate_steps(problem, schedule, grounds_.steps).problem
                              : scheduled_problem(problem, schedule);
  }

  static void check_timeline(const std::string& text, const std::string& name, const Problem& problem,
                             const std::string& model) {
    try {
      parse_timeline(text, name, problem);
    } catch (const InputError& error) {
      const bool unknown = std::ranges::find(error.findings(), "unknown-op", &Finding::code) != error.findings().end();
      const Json object = unknown ? Json::parse(text, nullptr, false) : Json{};
      const std::size_t ops = object.is_object() && object.contains("ops") ? object["ops"].size() : problem.op_count();
      if (ops == problem.op_count()) throw;
      refuse("other-graph", fmt::format("it has {}, but '{}' has {}", counted(ops, "op"), model, problem.op_count()),
             "if its schedule splits or copies ops, or it has several steps: give --schedule FILE and --steps N as it "
             "was simulated");
    }
  }

  const Grounds& grounds_;
  std::string schedule_text_;
  std::map<std::pair<std::string, std::string>, std::optional<Problem>> problems_;  // by model and cluster
  bool schedules_ = false, timelines_ = false, onnx_ = false;
};

std::string check_json(const std::vector<CheckResult>& results, const std::vector<std::string>& warnings) {
  Json files = Json::array(), errors = Json::array();
  for (const CheckResult& result : results) {
    files.push_back({{"file", result.file},
                     {"kind", result.kind},
                     {"good", result.findings.empty()},
                     {"what", result.what},
                     {"notes", result.notes}});
    for (const Finding& finding : result.findings)
      errors.push_back({{"code", finding.code},
                        {"file", finding.at.file},
                        {"line", finding.at.line},
                        {"column", finding.at.column},
                        {"pointer", finding.pointer},
                        {"message", finding.message},
                        {"help", finding.help}});
  }
  Json object = begin_result("check");
  object["files"] = std::move(files);
  object["errors"] = std::move(errors);
  return warnings.empty() ? result_text(object) : result_text(std::move(object), warnings);
}

struct CheckVerb {
  std::vector<std::string> files, given;
  Grounds grounds;

  void declare(OptionSet& set) {
    set.operands(files, "FILE...",
                 "graphs, clusters, ONNX files, schedules, timelines, plans, profiles, calibrations, policies",
                 "trainyard check graph.json cluster.toml");
    set.option("--model", "MODEL", "the model of schedules and timelines (default: the one that they name)",
               [this](const std::string& word, const std::string&) { grounds.inputs.models = {word}; });
    set.input("--schedule", grounds.schedule, "the schedule of the timelines, needed if it splits or copies ops");
    set.number("--steps", grounds.steps, "number of steps in the timelines (with --schedule)");
    grounds.inputs.declare_open_machine(set);
    grounds.inputs.training.declare(set);
    set.check([this, &set] {
      given = set.given();
      if (grounds.steps > 0 && grounds.schedule.empty())
        throw UsageError("--steps needs --schedule", "give --schedule too");
    });
  }

  int run(Console& console) const {
    Checker checker{grounds};
    std::vector<CheckResult> results;
    for (const std::string& file : files) results.push_back(checker.check(file));
    std::string unused;
    for (const std::string& option : given)
      if (!checker.used(option)) unused += (unused.empty() ? "" : ", ") + option;
    if (!unused.empty()) console.warn(fmt::format("{}: has no effect on these files", unused));
    if (console.json()) {
      console.print(check_json(results, console.warnings()));
    } else {
      for (const CheckResult& result : results) {
        for (const std::string& note : result.notes) console.warn(fmt::format("{}: {}", result.file, note));
        if (result.findings.empty())
          console.print(fmt::format("{}: a {} without errors: {}\n", printable(result.file), result.kind,
                                    printable(result.what)));
        else
          console.complain(InputError{result.findings});
      }
    }
    const bool all_good = std::ranges::all_of(results, [](const CheckResult& r) { return r.findings.empty(); });
    return all_good ? kDone : kInput;
  }
};

}  // namespace

const Verb kCheck{"check", "reports all errors in files",
                  "trainyard import resnet50 -o resnet50.json && trainyard check resnet50.json", declare<CheckVerb>};

}  // namespace trainyard::program
