#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "interrupt.hpp"
#include "run_common.hpp"
#include "search.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/json_write.hpp"
#include "trainyard/io/policy_file.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

PolicyTraining training_of(const Arguments& arguments) {
  PolicyTraining training;
  if (!arguments.placer.empty()) training.placer = arguments.placer;
  if (!is_learned_placer(training.placer))
    throw UsageError(fmt::format("--placer: '{}' learns no policy", training.placer),
                     fmt::format("one of: {}", fmt::join(learned_placer_names(), ", ")));
  training.options.threads = 0;
  training.options.intermediate = training.placer.starts_with("placeto");
  training.options.seed = chosen_seed(arguments);
  if (!arguments.updates.empty())
    training.options.updates = static_cast<std::size_t>(whole_number(arguments.updates, "--updates", 1));
  else if (!arguments.train_time.empty())
    training.options.updates = std::numeric_limits<std::size_t>::max();
  return training;
}

/// The share of --time that is used up; 1 after an interrupt.
std::function<double()> clock_of(const Arguments& arguments) {
  double limit = std::numeric_limits<double>::infinity();
  if (!arguments.train_time.empty()) limit = time_limit(arguments.train_time);
  return [limit, begin = std::chrono::steady_clock::now()] {
    if (interrupted()) return 1.0;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / limit;
  };
}

std::string result_json(const TrainedPolicy& trained, std::span<const learned::TaskCosts> costs) {
  std::string rows;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    rows +=
        fmt::format("{}{{\"model\": {}, \"start_ns\": ", i ? ", " : "", detail::json_string(trained.policy.graphs[i]));
    detail::append_json(rows, costs[i].start);
    rows += ", \"best_ns\": ";
    detail::append_json(rows, costs[i].best);
    rows += '}';
  }
  return fmt::format(
      "{{\"placer\": {}, \"updates\": {}, \"episodes\": {}, \"evaluations_to_best\": {}, \"interrupted\": {}, "
      "\"models\": [{}]}}\n",
      detail::json_string(trained.policy.placer), trained.policy.updates, trained.policy.episodes,
      trained.result.evaluations_to_best, interrupted(), rows);
}

std::string result_text(const TrainedPolicy& trained, std::span<const learned::TaskCosts> costs) {
  Table table{{{"model"}, {"start", Table::Align::right}, {"best placement seen", Table::Align::right}}};
  const auto time = [](double ns) { return format_time(Nanoseconds{static_cast<std::int64_t>(ns)}); };
  for (std::size_t i = 0; i < costs.size(); ++i)
    table.add_row({trained.policy.graphs[i], time(costs[i].start), time(costs[i].best)});
  return fmt::format("{}: {} updates, {} episodes, {} placements simulated\n\n{}", trained.policy.placer,
                     trained.policy.updates, trained.policy.episodes, trained.result.evaluations, table.text());
}

}  // namespace

int run_train(const Arguments& arguments, Console& console) {
  if (arguments.operands.empty())
    throw UsageError("train needs a MODEL", "for example: trainyard train resnet18 --cluster 4xV100 -o policy.json");
  PolicyTraining training = training_of(arguments);
  Outputs outputs;
  for (const std::string& word : arguments.operands) outputs.reads(word);
  outputs.reads(arguments.cluster);
  std::optional<TrainedPolicy> trained;
  outputs.writes(arguments.output, "--output", [&trained](std::ostream& out) { write_policy(trained->policy, out); });
  refuse_json_beside(outputs, console);
  outputs.check();

  const Cluster cluster = make_cluster(load_cluster(arguments));
  const CostModel costs = load_costs(arguments);
  std::vector<Problem> problems;
  for (const std::string& word : arguments.operands) {
    LoadedModel model = load_model(word, arguments);
    warn_notes(model, console);
    problems.emplace_back(std::move(model.graph), cluster, costs);
  }
  const InterruptGuard guard;
  training.options.used = clock_of(arguments);
  training.options.progress = [&](std::size_t update, double mean) {
    console.progress(fmt::format("update {}: mean step time {:.1f} % of the start's", update, 100 * mean));
  };
  trained = train_policy(problems, training);
  console.progress("");
  outputs.write_all(console);
  if (console.json())
    console.print(result_json(*trained, trained->result.costs));
  else if (!outputs.takes_standard_output())
    console.print(result_text(*trained, trained->result.costs));
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace trainyard::program
