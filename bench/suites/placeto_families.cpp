// Placeto's Fig. 5: zero-shot placement of unseen graphs by one policy. Also auto with such placements as starts.
#include <fmt/format.h>

#include <optional>

#include "placeto_studies.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/io/formats/policy_file.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/zoo/families.hpp"

namespace trainyard::bench {
namespace {

using learned::PlacementCosts;
using learned::PlacementTask;
using Align = TextTable::Align;

constexpr const char* kCluster = "4xV100";
constexpr const char* kOthers[] = {"expert", "heft", "auto"};

double random_median(const PlacementTask& task, std::uint64_t seed) {
  PlacementCosts evaluator{task};
  Random random{seed};
  std::vector<double> drawn;
  for (int draw = 0; draw < 20; ++draw) drawn.push_back(evaluator.cost(random_devices(task, random)));
  return upper_quantile_of(drawn);
}

std::span<const NetworkFamily> families(const PlacetoEffort& effort) {
  return network_families().first(effort.smallest ? 1 : network_families().size());
}

}  // namespace

void placeto_families(const PlacetoEffort& effort, std::ostream& out) {
  TextTable table{{{"family"},
                   {"policy of"},
                   {"zero-shot", Align::right},
                   {"start", Align::right},
                   {"descent", Align::right},
                   {"random", Align::right},
                   {"expert", Align::right},
                   {"heft", Align::right},
                   {"auto", Align::right},
                   {"zero-shot ms", Align::right},
                   {"training s", Align::right}}};
  std::optional<LearnedPolicy> given;
  if (!effort.policy.empty()) given = read_policy(effort.policy);
  for (const NetworkFamily& family : families(effort)) {
    const std::size_t half = effort.count / 2;
    const std::vector<PlacementTask> unseen = family_tasks(family.name, kCluster, given ? effort.skip : half, half);
    std::vector<double> optimized, start, chance, steepest;
    std::vector<std::vector<double>> others(std::size(kOthers));
    for (std::size_t i = 0; i < unseen.size(); ++i) {
      optimized.push_back(trained_on({&unseen[i], 1}, "placeto", effort, effort.first_seed).result.best_cost.front());
      start.push_back(unseen[i].start_cost / optimized[i]);
      steepest.push_back(descend(unseen[i], unseen[i].start, {.passes = learned::kPasses}) / optimized[i]);
      chance.push_back(random_median(unseen[i], i) / optimized[i]);
      for (std::size_t k = 0; k < others.size(); ++k)
        others[k].push_back(cost_of(kOthers[k], unseen[i].problem, effort) / optimized[i]);
    }
    const auto add = [&](const std::string& placer, const learned::PolicyNetwork<float>& network, double seconds) {
      std::vector<double> ratios, times;
      for (std::size_t i = 0; i < unseen.size(); ++i) {
        double cost = 0;
        times.push_back(1e3 * processor_seconds([&] { cost = greedy_cost(network, unseen[i]); }));
        ratios.push_back(cost / optimized[i]);
      }
      RangeChart chart{.title =
                           fmt::format("{}: step time over that of placeto trained on the unseen graph alone, policy "
                                       "of {}",
                                       family.name, placer)};
      chart.rows = {{"zero-shot", ratios}, {"start", start},    {"descent", steepest}, {"random", chance},
                    {"expert", others[0]}, {"heft", others[1]}, {"auto", others[2]}};
      effort.add_chart(std::move(chart));
      table.add_row({family.name, placer, spread_text(ratios), spread_text(start), spread_text(steepest),
                     spread_text(chance), spread_text(others[0]), spread_text(others[1]), spread_text(others[2]),
                     fmt::format("{:.0f}", upper_quantile_of(times)),
                     seconds > 0 ? fmt::format("{:.0f}", seconds) : "-"});
    };
    if (given) {
      add(given->placer, *network_of(*given), 0);
      continue;
    }
    const std::vector<PlacementTask> training = family_tasks(family.name, kCluster, 0, half);
    PlacetoEffort larger = effort;
    larger.updates *= half;
    for (const char* placer : {"placeto", "rnn"}) {
      const TrainedNetwork general =
          trained_on(training, placer, larger, effort.first_seed, std::string_view{placer} != "rnn");
      add(placer, *general.network, general.seconds);
    }
  }
  out << fmt::format(
             "Fig. 5 on {}: step times over that of placeto trained on the unseen graph alone (optimized, {} updates "
             "of "
             "8 placements, the best placement seen), of {} unseen graphs a family: median (least to most).\n{}; auto: "
             "{} evaluations; random: the median of 20; descent: no policy, four passes over the groups, each to the "
             "device where the step is "
             "shortest then. Published: Placeto's zero-shot nearly equals optimized, the "
             "RNN's is near random.\n\n",
             kCluster, effort.updates, effort.count / 2,
             given
                 ? fmt::format("The policy: {}, {} placements of {} graphs", effort.policy, given->episodes,
                               given->graphs.size())
                 : fmt::format("Policies: of as many other graphs of the family, {} updates for each", effort.updates),
             effort.evaluations)
      << table.text() << "\n";
}

void placeto_starts(const PlacetoEffort& effort, std::ostream& out) {
  TextTable table{{{"family"},
                   {"auto with the start, over auto", Align::right},
                   {"shorter", Align::right},
                   {"equal", Align::right},
                   {"longer", Align::right}}};
  const LearnedPolicy policy = read_policy(effort.policy);
  for (const NetworkFamily& family : families(effort)) {
    std::vector<double> ratios;
    std::size_t shorter = 0, longer = 0;
    for (const PlacementTask& task : family_tasks(family.name, kCluster, effort.skip, effort.count / 2)) {
      const PlaceOptions options{.budget = {.seconds = {}, .evaluations = effort.evaluations},
                                 .threads = static_cast<unsigned>(effort.threads)};
      const Placer learned{.name = policy.placer, .place = [&](const Problem& problem, const PlaceOptions&) {
                             return place_by_policy(problem, policy);
                           }};
      const auto cost = [&](const Schedule& schedule) {
        return static_cast<double>(simulate(scheduled_problem(task.problem, schedule), schedule).makespan.count);
      };
      const double with = cost(auto_with({learned}).place(task.problem, options)),
                   without = cost(find_placer("auto").place(task.problem, options));
      ratios.push_back(with / without);
      shorter += with < without;
      longer += with > without;
    }
    table.add_row({family.name, spread_text(ratios), fmt::format("{}", shorter),
                   fmt::format("{}", ratios.size() - shorter - longer), fmt::format("{}", longer)});
  }
  out << fmt::format(
             "The policy's placement as one more start of auto on {}, {} evaluations: {} unseen graphs a family, "
             "median "
             "(least to most).\n\n",
             kCluster, effort.evaluations, effort.count / 2)
      << table.text() << "\n";
}

}  // namespace trainyard::bench
