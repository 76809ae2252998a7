#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "inputs.hpp"
#include "print/result_json.hpp"
#include "trainyard/core/nearest_name.hpp"
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
#include "trainyard/report/table.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// What check found in one file.
struct CheckResult {
  std::string file;
  std::string kind = {};  // "graph", "cluster", "ONNX", "schedule", "timeline"
  std::string what = {};  // how large it is, for people
  std::vector<std::string> notes = {};
  std::vector<Finding> findings = {};  // none: the file is good
};

/// "trainyard-graph/1" says "graph": the first format tag in the text, or nothing.
std::string tagged_kind(std::string_view text) {
  constexpr std::string_view tag = "\"trainyard-";
  const std::size_t key = text.find("\"format\"");
  const std::size_t at = text.find(tag, key == std::string_view::npos ? text.size() : key);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + tag.size());
  return std::string{text.substr(0, text.find_first_of("/\""))};
}

bool ends_with(const std::string& file, std::string_view end) { return std::string_view{file}.ends_with(end); }

/// Checks one file after the other; the problem that schedules are checked against is made once, when first needed.
class Checker {
 public:
  explicit Checker(const ProblemOptions& options) : options_(options) {}

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
      result.what = counted(static_cast<std::int64_t>(spec.devices.size()), "device");
      return;
    }
    if (ends_with(file, ".onnx") || ends_with(file, ".onnx.gz")) {
      result.kind = "ONNX";
      const LoadedModel model = load_model(file, options_.training);
      result.what =
          fmt::format("{} in a training step", counted(static_cast<std::int64_t>(model.graph.op_count()), "op"));
      result.notes = model.notes;
      return;
    }
    const std::string text = read_input(file);
    result.kind = tagged_kind(text);
    const std::string name = input_name(file);
    if (result.kind == "schedule" || result.kind == "timeline") {
      const Problem& problem = the_problem(result.kind);
      if (result.kind == "schedule")
        parse_schedule(text, name, problem);
      else
        parse_timeline(text, name, problem);
      result.what = fmt::format("fits {} and {}", options_.models.front(), options_.cluster);
      return;
    }
    if (result.kind == "profile") {
      const Profile profile = parse_profile(text, name);
      result.what = fmt::format("{}, {}", counted(static_cast<std::int64_t>(profile.ops.size()), "measured op"),
                                counted(static_cast<std::int64_t>(profile.links.size()), "measured link"));
      return;
    }
    if (result.kind == "calibration") {
      const Calibration calibration = parse_calibration(text, name);
      result.what = fmt::format("{}, {}", counted(static_cast<std::int64_t>(calibration.ops.size()), "op time"),
                                counted(static_cast<std::int64_t>(calibration.links.size()), "link"));
      return;
    }
    if (result.kind == "plan") {
      const PlanFile plan = parse_plan(text, name);
      result.what = counted(static_cast<std::int64_t>(plan.begins.size() + 1), "stage");
      return;
    }
    if (result.kind == "policy") {
      const LearnedPolicy policy = parse_policy(text, name);
      result.what = fmt::format("{}, learned by {}",
                                counted(static_cast<std::int64_t>(policy.devices.size()), "device"), policy.placer);
      return;
    }
    if (!result.kind.empty() && result.kind != "graph")
      throw InputError(
          Finding{.code = "format",
                  .message = fmt::format("files of the format 'trainyard-{}' are not known here", result.kind),
                  .help = "check knows graphs, schedules, timelines, plans, profiles, calibrations, policies, clusters "
                          "(.toml) and .onnx"});
    result.kind = "graph";
    const Graph graph = parse_graph(text, name);
    result.what = fmt::format("{}, {}", counted(static_cast<std::int64_t>(graph.op_count()), "op"),
                              counted(static_cast<std::int64_t>(graph.tensor_count()), "tensor"));
  }

  const Problem& the_problem(const std::string& kind) {
    if (options_.models.empty() || options_.cluster.empty())
      throw UsageError(fmt::format("a {} can only be checked against a model and a cluster", kind),
                       "give --model and --cluster");
    if (!problem_) {
      Machine machine = load_machine(options_.cluster, options_.machine);
      LoadedModel model = load_models(options_.models, options_.training);
      problem_.emplace(std::move(model.graph), std::move(machine.cluster), machine.costs);
    }
    return *problem_;
  }

  const ProblemOptions& options_;
  std::optional<Problem> problem_;
};

std::string check_json(const std::vector<CheckResult>& results) {
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
  return result_text(object);
}

struct CheckVerb {
  std::vector<std::string> files;
  ProblemOptions inputs;

  void declare(OptionSet& set) {
    set.operands(files, "FILE...",
                 "graphs, clusters, ONNX files, schedules, timelines, plans, profiles, calibrations, policies",
                 "trainyard check graph.json cluster.toml");
    set.option("--model", "MODEL", "what schedules and timelines are checked against",
               [this](const std::string& word, const std::string&) { inputs.models = {word}; });
    inputs.machine.declare(set, inputs.cluster);
    inputs.training.declare(set);
  }

  int run(Console& console) const {
    Checker checker{inputs};
    std::vector<CheckResult> results;
    for (const std::string& file : files) results.push_back(checker.check(file));
    if (console.json()) {
      console.print(check_json(results));
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

const Verb kCheck{"check", "says all that is wrong with files",
                  "trainyard import resnet50 -o resnet50.json && trainyard check resnet50.json", declare<CheckVerb>};

}  // namespace trainyard::program
