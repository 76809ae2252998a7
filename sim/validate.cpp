#include "profiler/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "inputs.hpp"
#include "measured_run.hpp"
#include "profiler/cpu/machine.hpp"
#include "run_common.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/schedule_file.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

using Json = nlohmann::ordered_json;

/// What the schedule names under the key; empty where it does not.
std::string named(const std::string& text, const char* key) {
  const Json object = Json::parse(text, nullptr, false);
  return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

/// Whether the operand is a schedule file: by its format tag.
bool names_schedule(const std::string& operand) {
  if (operand == "-") return true;
  std::string_view word = operand;
  if (word.ends_with(".gz")) word.remove_suffix(3);
  if (!word.ends_with(".json")) return false;
  const std::string format = named(read_input(operand), "format");
  return format.empty() || format.starts_with("trainyard-schedule/");
}

Json result_json(const Problem& problem, const Schedule& schedule, const Validation& v,
                 const std::optional<Ranking>& ranking, const std::vector<Validation>& all,
                 const std::vector<std::string>& warnings) {
  Json object = {{"format", "trainyard-result/1"}, {"verb", "validate"}};
  object["verdict"] = std::string{name_of(v.verdict)};
  object["why"] = v.why;
  object["predicted_ns"] = v.predicted.count;
  object["measured_ns"] = {{"p10", v.p10.count}, {"p50", v.p50.count}, {"p90", v.p90.count}};
  object["total_error"] = v.total_error;
  object["structural_error"] = v.structural_error;
  object["op_time_error"] = v.op_time_error;
  object["link_error"] = v.link_error;
  object["noise_floor"] = v.noise_floor;
  object["basis"] = v.basis == Basis::steps ? "steps" : v.basis == Basis::ops ? "ops" : "none";
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
                             {"source", name_of(problem.cost_source(v.ops[i].op, schedule.placement[v.ops[i].op]))}});
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
                                      {"total_error", each.total_error},
                                      {"structural_error", each.structural_error},
                                      {"clean_steps", each.clean_steps},
                                      {"steps", each.steps}});
  }
  object["warnings"] = warnings;
  return object;
}

}  // namespace

int run_validate(const Arguments& arguments, Console& console) {
  const std::string& operand =
      only_operand(arguments, "SCHEDULE", "trainyard validate schedule.json --model lenet --cluster 2xcpu-core");
  const auto backend = chosen_backend(arguments);
  ValidateOptions options;
  options.rounds = chosen_rounds(arguments);
  if (const auto time = chosen_time(arguments)) options.most_ns = *time;
  const std::size_t ranked =
      arguments.rank.empty() ? 0 : static_cast<std::size_t>(whole_number(arguments.rank, "--rank", 2));

  // SCHEDULE, or MODEL with --schedule, or MODEL alone.
  Arguments complete = arguments;
  std::string file = operand, text;
  const bool is_schedule = arguments.schedule.empty() && names_schedule(operand);
  if (!is_schedule) {
    if (!arguments.model.empty() && arguments.model != operand)
      throw UsageError("two models: " + operand + " and --model " + arguments.model,
                       "the operand is the schedule, or the model where --schedule is given");
    complete.model = operand;
    file = arguments.schedule;
  }
  if (!file.empty()) text = read_input(file);
  if (complete.model.empty()) complete.model = named(text, "graph");
  if (complete.cluster.empty()) complete.cluster = named(text, "cluster");
  if (complete.model.empty() || complete.cluster.empty())
    throw UsageError(
        file.empty() ? "validate needs --cluster" : "validate needs --model and --cluster",
        file.empty() ? "--cluster 2xcpu-core has two cores of this machine" : "the schedule does not name them");
  Outputs outputs;
  for (const std::string& input : {file, complete.model, complete.cluster, arguments.costs}) outputs.reads(input);
  std::vector<PageRun> page;
  outputs.writes(arguments.report, "--report",
                 [&page](std::ostream& out) { write_page({.title = {}, .facts = {}, .runs = page}, out); });
  refuse_json_beside(outputs, console);
  outputs.check();

  Machine machine = load_machine(complete);
  for (const std::string& note : machine.notes) console.warn(note);
  TrainingRecipe recipe;
  LoadedModel model = load_model(complete.model, complete, &recipe);
  warn_notes(model, console);
  if (!model.summary)
    console.warn(
        fmt::format("'{}' does not say what its ops compute: each takes the time predicted for it", complete.model));
  const bool computes = model.summary.has_value();
  const Problem problem{std::move(model.graph), std::move(machine.cluster), machine.costs};
  std::vector<std::pair<std::string, Schedule>> schedules;
  std::string title = "schedule";
  if (file.empty()) {
    const Placer& placer = chosen_placer(complete);
    title = placer.name;
    schedules.emplace_back(title, placer.place(problem, place_options(complete, placer)));
  } else {
    schedules.emplace_back(title, parse_schedule(text, input_name(file), problem));
  }
  if (ranked > 1)
    for (auto& more : schedules_to_rank(problem, ranked - 1, title)) schedules.push_back(std::move(more));
  const HostInfo host = cpu::host_info(600);
  options.noise_floor = std::max(host.compute_swing.value_or(0), 0.0);
  options.costs = machine.costs;
  const std::vector<Validation> results =
      validate(*backend, problem, {.recipe = computes ? &recipe : nullptr}, schedules, options);
  const Validation& result = results.front();
  const Schedule& schedule = schedules.front().second;
  std::optional<Ranking> ranking;
  if (ranked > 1) ranking = rank(results);
  page = page_runs(beside_others(problem, schedule, machine.costs), schedule, result, title);
  outputs.write_all(console);
  if (console.json()) {
    console.print(result_json(problem, schedule, result, ranking, results, console.warnings()).dump(2) + "\n");
  } else {
    std::string said =
        fmt::format("{}: {}\n", name_of(result.verdict), result.why) + validation_text(problem, schedule, result);
    if (ranking)
      said += fmt::format(
          "\n{} placements: total error {:.1f} % on average, {:.1f} % at most; {} pairs are 10 % apart or more, {:.0f} "
          "% "
          "of them predicted in order; the one predicted best is {:.1f} % slower than the best\n",
          results.size(), 100 * ranking->mean_error, 100 * ranking->worst_error, ranking->pairs,
          100 * ranking->agreement, 100 * ranking->regret);
    console.print(said);
  }
  return result.verdict == Verdict::pass ? kDone : result.verdict == Verdict::fail ? kAnswerIsNo : kInconclusive;
}

}  // namespace trainyard::program
