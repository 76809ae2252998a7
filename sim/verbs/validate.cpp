#include "profiler/validate/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "inputs.hpp"
#include "measured_run.hpp"
#include "print/result_json.hpp"
#include "profiler/host.hpp"
#include "profiler/run/recorded/recorded_backend.hpp"
#include "profiler/validate/judge.hpp"
#include "profiler/validate/rank.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/runs_file.hpp"
#include "trainyard/io/frameworks/device_map.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/report/page.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/rewritten_recipe.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// Whether the operand is a schedule file, by its format tag; standard input counts as one.
bool names_schedule(const std::string& operand) {
  if (operand == "-") return true;
  std::string_view word = operand;
  if (word.ends_with(".gz")) word.remove_suffix(3);
  if (!word.ends_with(".json")) return false;
  const std::string format = named_in(read_input(operand), "format");
  return format.empty() || format.starts_with("trainyard-schedule/");
}

std::string validation_json(const Problem& problem, const Schedule& schedule, const Validation& v,
                            const std::optional<Ranking>& ranking, const std::vector<Validation>& all,
                            const std::vector<std::string>& warnings) {
  Json object = begin_result("validate");
  object["verdict"] = std::string{name_of(v.verdict)};
  object["why"] = v.why;
  object["predicted_ns"] = v.predicted.count;
  object["measured_ns"] = {{"p10", v.p10.count}, {"p50", v.p50.count}, {"p90", v.p90.count}};
  object["plain_ns"] = v.plain.count > 0 ? Json(v.plain.count) : Json(nullptr);
  object["undisturbed_ns"] = v.basis == Basis::ops ? Json(v.measured.count) : Json(nullptr);
  object["total_error"] = v.total_error;
  object["structural_error"] = v.structural_error;
  object["op_time_error"] = v.op_time_error;
  object["link_error"] = v.link_error;
  object["noise_floor"] = v.noise_floor;
  object["basis"] = name_of(v.basis);
  object["net_ops"] = v.net_ops;
  object["steps"] = v.steps;
  object["clean_steps"] = v.clean_steps;
  object["dropped_steps"] = v.dropped_steps();
  object["dropped"] = v.dropped;
  object["structural"] = {{"steps", v.structural_steps},
                          {"p10", v.structural_p10},
                          {"p90", v.structural_p90},
                          {"tolerance", v.structural_tolerance},
                          {"mean_op_ns", v.mean_op.count}};
  object["order_kept"] = v.order_kept;
  object["outputs_agree"] = v.outputs_agree;
  object["devices"] = Json::array();
  for (const DeviceId device : problem.devices())
    object["devices"].push_back({{"device", problem.cluster().device(device).name},
                                 {"gap_ns", v.gap_ns.empty() ? 0.0 : v.gap_ns[device]},
                                 {"predicted_peak_bytes", v.predicted_peak[device].count},
                                 {"measured_peak_bytes", v.measured_peak[device].count}});
  object["allocated_bytes"] = v.allocated.count;
  object["ops"] = Json::array();
  for (std::size_t i = 0; i < std::min<std::size_t>(10, v.ops.size()); ++i)
    object["ops"].push_back({{"op", problem.graph().name(v.ops[i].op)},
                             {"device", problem.cluster().device(schedule.placement[v.ops[i].op]).name},
                             {"predicted_ns", v.ops[i].predicted.count},
                             {"measured_ns", v.ops[i].measured.count},
                             {"source", problem.cost_source(v.ops[i].op, schedule.placement[v.ops[i].op]).name}});
  object["links"] = Json::array();
  for (const LinkError& link : v.links)
    object["links"].push_back({{"from", problem.cluster().device(link.from).name},
                               {"to", problem.cluster().device(link.to).name},
                               {"transfers", link.transfers},
                               {"predicted_ns", link.predicted.count},
                               {"measured_ns", link.measured.count}});
  if (ranking)
    object["rank"] = {{"pairs", ranking->pairs},
                      {"agreement", ranking->agreement},
                      {"regret", ranking->regret},
                      {"mean_error", ranking->mean_error},
                      {"worst_error", ranking->worst_error}};
  if (ranking) {
    object["placements"] = Json::array();
    for (const Validation& each : all)
      object["placements"].push_back({{"name", each.name},
                                      {"predicted_ns", each.predicted.count},
                                      {"measured_ns", each.measured.count},
                                      {"plain_ns", each.plain.count > 0 ? Json(each.plain.count) : Json(nullptr)},
                                      {"basis", name_of(each.basis)},
                                      {"total_error", each.total_error},
                                      {"structural_error", each.structural_error},
                                      {"clean_steps", each.clean_steps},
                                      {"steps", each.steps}});
  }
  return result_text(std::move(object), warnings);
}

std::string ranking_text(const Ranking& ranking, std::size_t placements) {
  return fmt::format(
      "{} placements: total error {:.1f} % on average, {:.1f} % at most; {} {} 10 % apart or more, {:.0f} "
      "% of them predicted in order; the one predicted best is {:.1f} % slower than the best",
      placements, 100 * ranking.mean_error, 100 * ranking.worst_error, counted(ranking.pairs, "pair"),
      ranking.pairs == 1 ? "is" : "are", 100 * ranking.agreement, 100 * ranking.regret);
}

std::string validated_text(const Problem& problem, const Schedule& schedule, const Validation& result,
                           const std::optional<Ranking>& ranking, std::size_t placements, const TextFormat& format) {
  std::string text = fmt::format("{}: {}\n", name_of(result.verdict), printable(result.why)) +
                     validation_text(problem, schedule, result, format);
  if (ranking) text += "\n" + ranking_text(*ranking, placements) + "\n";
  return text;
}

/// Applies the schedule's rewrites to the problem and the recipe. Returns the originals, or nothing without rewrites.
std::optional<LoadedProblem> rewrite(LoadedProblem& loaded, const Schedule& schedule) {
  if (schedule.rewrites.empty() || !loaded.problem.rewrites().empty() || !loaded.recipe) return std::nullopt;
  LoadedProblem whole = loaded;
  loaded.recipe = rewritten_recipe(*loaded.recipe, loaded.problem.graph(), schedule.rewrites);
  loaded.problem = scheduled_problem(whole.problem, schedule);
  return whole;
}

/// Options for one round without warm-up, with as many steps as the shortest recorded run: recorded steps were warm.
ValidateOptions each_step_once(const RecordedRuns& recorded) {
  std::size_t least = std::numeric_limits<std::int32_t>::max();
  for (const RecordedRun& run : recorded.runs) least = std::min(least, run.steps.size());
  ValidateOptions options{.rounds = 1, .most_rounds = 1, .warm = 0, .measured = static_cast<int>(least)};
  options.most_ns = std::int64_t{1} << 60;
  return options;
}

struct ValidateVerb {
  std::vector<std::string> operand;  // SCHEDULE, or MODEL
  ProblemOptions inputs;
  std::string model, file;
  PlacerOptions placing;
  std::optional<Nanoseconds> time;
  BackendOptions backend;
  std::size_t ranked = 0;
  Output report;

  void declare(OptionSet& set) {
    set.operands(operand, "SCHEDULE", "the schedule to run; or the MODEL of --schedule",
                 "trainyard validate schedule.json --model lenet --cluster 2xcpu-core");
    set.text("--model", model, "MODEL", "the model of the schedule (default: the graph that it names)");
    set.input("--schedule", file, "the schedule to run, if the operand is a MODEL");
    set.text("--placer", placing.name, "NAME", "the placer for a MODEL without a schedule (default: heft)");
    set.value("--time", time, "TIME", "time after which no new round begins (default: 20s)", long_time);
    backend.declare(set, true);
    set.number("--rank", ranked, "runs N placements, and says whether they are predicted in the right order", 2);
    inputs.declare_open_machine(set);
    inputs.training.declare(set);
    set.output("--report", report, "writes both timelines as one HTML page", "html");
    set.reads(inputs.models);
    set.check([this] { complete(); });
  }

  int run(Console& console) const {
    const bool plays = backend.kind == BackendOptions::Kind::recorded;
    refuse_unexecuted(inputs.training, backend.on_gpus());
    auto runner = plays ? nullptr : backend.make(inputs.training.precision == Precision::tf32);
    LoadedProblem loaded = make_problem(inputs, console);
    const Problem& problem = loaded.problem;
    const RecordedRuns recorded = plays ? read_runs(backend.runs, problem) : RecordedRuns{};
    if (plays) runner = make_recorded_backend(recorded);
    if (!loaded.recipe)
      console.warn(
          fmt::format("'{}' does not say what its ops compute: each op takes its predicted time", loaded.name));
    std::vector<std::pair<std::string, Schedule>> schedules;
    if (file.empty()) {
      const bool rewrites = backend.kind == BackendOptions::Kind::cpu && loaded.recipe.has_value();
      schedules.push_back(placed_to_run(problem, placing, rewrites, console));
    } else {
      schedules.emplace_back("schedule", parse_schedule_or_map(text_, input_name(file), problem));
    }
    const std::optional<LoadedProblem> whole = rewrite(loaded, schedules.front().second);
    if (ranked > 1) {
      auto more = schedules_to_rank(problem, ranked - 1, schedules.front().first);
      schedules.insert(schedules.end(), more.begin(), more.end());
    }
    const HostInfo host = plays ? recorded.host : host_info(600);
    ValidateOptions options = plays ? each_step_once(recorded) : ValidateOptions{};
    if (!plays) options.rounds = backend.rounds;
    if (time) options.most_ns = time->count;
    const auto on_host = [](const Device& device) { return device.device_class == "cpu"; };
    const auto own = runner->noise_floor(problem.cluster());
    if (!own || std::ranges::any_of(problem.cluster().spec().devices, on_host))
      options.noise_floor = std::max(host.compute_swing.value_or(0), 0.0);
    options.noise_floor = std::max(options.noise_floor, own.value_or(0));
    const Workload workload{.recipe = loaded.recipe ? &*loaded.recipe : nullptr,
                            .whole_problem = whole ? &whole->problem : nullptr,
                            .whole_recipe = whole ? &*whole->recipe : nullptr};
    const std::vector<Validation> results = validate(*runner, problem, workload, schedules, options);
    const Validation& result = results.front();
    const std::string& title = schedules.front().first;
    const Schedule& schedule = schedules.front().second;
    std::optional<Ranking> ranking;
    if (ranked > 1) ranking = rank(results);
    const auto write_report = [&](std::ostream& out) {
      std::vector<Run> runs;
      const std::string of = ranking ? " of " + title : "";
      PageInput page{.facts = {{"verdict" + of, std::string{name_of(result.verdict)}},
                               {"error" + of, fmt::format("{:+.1f} %", 100 * result.total_error)},
                               {"median by the clock" + of, format_time(result.p50)}},
                     .ranking = ranking ? ranking_text(*ranking, results.size()) : ""};
      for (std::size_t i = 0; i < results.size(); ++i) {
        const auto& [name, placed] = schedules[i];
        const Problem predicted = beside_others(problem, placed);
        page.validations.push_back(page_validation(predicted, placed, results[i], runs.size()));
        for (Run& run : both_runs(predicted, placed, results[i], name)) runs.push_back(std::move(run));
      }
      for (const Run& run : runs) page.runs.push_back(&run);
      write_page(page, out);
    };
    write_outputs({{report, write_report}},
                  console.json() ? validation_json(problem, schedule, result, ranking, results, console.warnings())
                                 : validated_text(problem, schedule, result, ranking, results.size(), console.format()),
                  console);
    return result.verdict == Verdict::pass ? kDone : result.verdict == Verdict::fail ? kAnswerIsNo : kInconclusive;
  }

 private:
  /// Assigns the operand to schedule or model, and completes model and cluster by those that the schedule file names.
  void complete() {
    if (file.empty() && names_schedule(operand.front())) {
      file = operand.front();
    } else {
      if (!model.empty() && model != operand.front())
        throw UsageError("two models: " + operand.front() + " and --model " + model,
                         "give the schedule as operand, or --schedule with the model as operand");
      model = operand.front();
    }
    if (!file.empty() && !placing.name.empty())
      throw UsageError(fmt::format("--placer {}: '{}' already gives the schedule", placing.name, file),
                       "give either a schedule or --placer");
    if (!file.empty()) text_ = read_input(file);
    if (model.empty()) model = named_in(text_, "graph");
    if (inputs.cluster.empty()) inputs.cluster = named_in(text_, "cluster");
    if (model.empty() || inputs.cluster.empty())
      throw UsageError(
          file.empty() ? "validate needs --cluster" : "validate needs --model and --cluster",
          file.empty() ? "--cluster 2xcpu-core has two cores of this machine" : "the schedule does not name them");
    inputs.models = {model};
  }

  std::string text_;  // text of the schedule file
};

}  // namespace

const Verb kValidate{"validate", "runs a schedule on this machine, and says how wrong its prediction was",
                     "trainyard place lenet:batch=8 --cluster 2xcpu-core --no-splits -o schedule.json &&\n"
                     "  trainyard validate schedule.json --model lenet:batch=8 --cluster 2xcpu-core",
                     declare<ValidateVerb>};

}  // namespace trainyard::program
