#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <utility>

#include "inputs.hpp"
#include "interrupt.hpp"
#include "print/result_json.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/policy_file.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string trained_json(const TrainedPolicy& trained, std::span<const learned::TaskCosts> costs,
                         const std::vector<std::string>& warnings) {
  Json object = begin_result("train");
  object.update({{"placer", trained.policy.placer},
                 {"updates", trained.policy.updates},
                 {"episodes", trained.policy.episodes},
                 {"evaluations_to_best", trained.result.evaluations_to_best},
                 {"interrupted", interrupted()},
                 {"models", Json::array()}});
  for (std::size_t i = 0; i < costs.size(); ++i)
    object["models"].push_back(
        {{"model", trained.policy.graphs[i]}, {"start_ns", costs[i].start}, {"best_ns", costs[i].best}});
  return result_text(std::move(object), warnings);
}

std::string trained_text(const TrainedPolicy& trained, std::span<const learned::TaskCosts> costs,
                         const TextFormat& format) {
  TextTable table{{{"model"}, {"start", TextTable::Align::right}, {"best placement seen", TextTable::Align::right}}};
  table.fit(format);
  const auto time = [](double ns) { return format_time(Nanoseconds{static_cast<std::int64_t>(ns)}); };
  for (std::size_t i = 0; i < costs.size(); ++i)
    table.add_row({trained.policy.graphs[i], time(costs[i].start), time(costs[i].best)});
  return fmt::format("{}: {} updates, {} episodes, {} placements simulated\n\n{}", trained.policy.placer,
                     trained.policy.updates, trained.policy.episodes, trained.result.evaluations, table.text());
}

struct TrainVerb {
  ProblemOptions inputs;
  std::string placer = PolicyTraining{}.placer;
  std::optional<double> seconds;
  std::optional<std::size_t> updates;
  std::optional<std::uint64_t> seed;
  Output output;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL...", "built-in networks (trainyard models), or files",
                 "trainyard train resnet18 --cluster 4xV100 -o policy.json");
    inputs.declare_machine(set);
    set.text("--placer", placer, "PLACER", "the placer that learns (default: placeto)");
    set.value("--time", seconds, "TIME", "time limit for learning, as in 2m", long_seconds);
    set.number("--updates", updates, "number of policy updates (default: 100)");
    declare_seed(set, seed, "seed for the random numbers (default: 1)");
    inputs.training.declare(set);
    set.output("-o,--output", output, "the policy; .gz compresses, - is standard output", "json");
    set.check([this] {
      if (!is_learned_placer(placer))
        throw UsageError(fmt::format("--placer: '{}' does not learn a policy", placer),
                         fmt::format("one of: {}", fmt::join(learned_placer_names(), ", ")));
    });
  }

  int run(Console& console) const {
    const Machine machine = load_machine(inputs.cluster, inputs.machine);
    std::vector<Problem> problems;
    for (const std::string& word : inputs.models) {
      LoadedModel model = load_model(word, inputs.training);
      for (const std::string& note : model.notes) console.warn(note);
      problems.emplace_back(std::move(model.graph), machine.cluster, machine.costs);
    }
    for (const std::string& note : machine.notes) console.warn(note);
    const InterruptGuard guard{InterruptGuard::Waits::to_the_end};
    const TrainedPolicy trained = train_policy(problems, policy_training(console));
    console.progress("");
    write_outputs({{output, [&](std::ostream& out) { write_policy(trained.policy, out); }}},
                  console.json() ? trained_json(trained, trained.result.costs, console.warnings())
                                 : trained_text(trained, trained.result.costs, console.format()),
                  console);
    return kDone;
  }

 private:
  PolicyTraining policy_training(Console& console) const {
    PolicyTraining training;
    training.placer = placer;
    training.grouping = usual_grouping(placer);
    training.options = usual_training(placer);
    training.options.threads = 0;
    training.options.seed = seed.value_or(1);
    if (updates || seconds) training.options.updates = updates.value_or(std::numeric_limits<std::size_t>::max());
    // Share of --time used so far; 1 after an interrupt.
    training.options.used = [limit = seconds.value_or(std::numeric_limits<double>::infinity()),
                             begin = std::chrono::steady_clock::now()] {
      if (interrupted()) return 1.0;
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / limit;
    };
    training.options.progress = [&console](std::size_t update, double mean) {
      console.progress(fmt::format("update {}: mean step time {:.1f} % of the start's", update, 100 * mean));
    };
    return training;
  }
};

}  // namespace

const Verb kTrain{"train", "learns a placement policy, and writes it",
                  "trainyard train resnet18 --placer placeto --cluster 4xV100 --updates 3 -o policy.json",
                  declare<TrainVerb>};

}  // namespace trainyard::program
