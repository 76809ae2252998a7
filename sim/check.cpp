#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "check_result.hpp"
#include "inputs.hpp"
#include "run_common.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/calibration_file.hpp"
#include "trainyard/io/cluster_file.hpp"
#include "trainyard/io/graph_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/profile_file.hpp"
#include "trainyard/io/schedule_file.hpp"
#include "trainyard/io/timeline_file.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

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
  explicit Checker(const Arguments& arguments) : arguments_(arguments) {}

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
      const LoadedModel model = load_model(file, arguments_);
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
      result.what = fmt::format("fits {} and {}", arguments_.model, arguments_.cluster);
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
    if (!result.kind.empty() && result.kind != "graph")
      throw InputError(Finding{
          .code = "format",
          .message = fmt::format("files of the format 'trainyard-{}' are not known here", result.kind),
          .help = "check knows graphs, schedules, timelines, profiles, calibrations, clusters (.toml) and .onnx"});
    result.kind = "graph";
    const Graph graph = parse_graph(text, name);
    result.what = fmt::format("{}, {}", counted(static_cast<std::int64_t>(graph.op_count()), "op"),
                              counted(static_cast<std::int64_t>(graph.tensor_count()), "tensor"));
  }

  const Problem& the_problem(const std::string& kind) {
    if (arguments_.model.empty() || arguments_.cluster.empty())
      throw UsageError(fmt::format("a {} can only be checked against a model and a cluster", kind),
                       "give --model and --cluster");
    if (!problem_) {
      Machine machine = load_machine(arguments_);
      problem_.emplace(load_model(arguments_.model, arguments_).graph, std::move(machine.cluster), machine.costs);
    }
    return *problem_;
  }

  const Arguments& arguments_;
  std::optional<Problem> problem_;
};

}  // namespace

int run_check(const Arguments& arguments, Console& console) {
  if (arguments.operands.empty())
    throw UsageError("check needs a FILE", "for example: trainyard check graph.json cluster.toml");
  Checker checker{arguments};
  std::vector<CheckResult> results;
  for (const std::string& file : arguments.operands) results.push_back(checker.check(file));
  if (console.json()) {
    console.print(check_json(results));
  } else {
    for (const CheckResult& result : results) {
      for (const std::string& note : result.notes) console.warn(fmt::format("{}: {}", result.file, note));
      if (result.findings.empty())
        console.print(fmt::format("{}: a {} without errors: {}\n", result.file, result.kind, result.what));
      else
        console.complain(InputError{result.findings});
    }
  }
  const bool all_good = std::ranges::all_of(results, [](const CheckResult& result) { return result.findings.empty(); });
  return all_good ? kDone : kInput;
}

}  // namespace trainyard::program
