// Placeto trained on single graphs: effects of the order of visit, of the parts of its network, and of the rewards.
// Also the functions that the studies share.
#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "placeto_studies.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/learned/placement_walk.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/families.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {

using learned::Devices;
using learned::PlacementCosts;
using learned::PlacementTask;
using Align = TextTable::Align;

std::string spread_text(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", upper_quantile_of(values), least, most);
}

std::string ms_text(double ns) { return fmt::format("{:.2f}", 1e-6 * ns); }

Problem adam_problem(const std::string& network, const std::string& cluster) {
  return {training_graph(make_network(network), {.optimizer = Optimizer::adam}), make_cluster(preset_cluster(cluster))};
}

std::vector<PlacementTask> family_tasks(std::string_view family, const std::string& cluster, std::size_t first,
                                        std::size_t count) {
  std::vector<PlacementTask> tasks;
  const auto members = family_members(family, 1, first + count);
  for (std::size_t i = first; i < members.size(); ++i) tasks.emplace_back(adam_problem(members[i], cluster));
  return tasks;
}

TrainedNetwork trained_on(std::span<const PlacementTask> tasks, std::string_view placer, const PlacetoEffort& effort,
                          std::uint64_t seed, bool intermediate) {
  TrainedNetwork trained{make_policy_network(placer, tasks.front().devices(), seed), {}, 0};
  trained.seconds = processor_seconds([&] {
    trained.result = learned::train(*trained.network, tasks,
                                    {.updates = effort.updates,
                                     .threads = static_cast<unsigned>(effort.threads),
                                     .seed = seed,
                                     .intermediate = intermediate});
  });
  return trained;
}

double greedy_cost(const learned::PolicyNetwork<float>& network, const PlacementTask& task,
                   std::span<const std::uint32_t> order) {
  PlacementCosts evaluator{task};
  return evaluator.cost(learned::decide_in_passes(network, task, evaluator, order));
}

Devices random_devices(const PlacementTask& task, Random& random) {
  Devices devices;
  for (std::size_t group = 0; group < task.size(); ++group) {
    std::uint32_t device = 0;
    do device = static_cast<std::uint32_t>(random.below(task.devices()));
    while (task.allowed(group)[device] == 0);
    devices.push_back(device);
  }
  return devices;
}

double descend(const PlacementTask& task, const Devices& from, const DescentLimits& limits) {
  learned::PlacementWalk walk{task, from};
  bool moved = true;
  for (std::size_t pass = 0; pass < limits.passes && moved; ++pass) {
    moved = false;
    for (std::uint32_t group = 0; group < task.size(); ++group) {
      std::optional<std::uint32_t> best;
      double most = 0;
      for (std::uint32_t device = 0; device < task.devices(); ++device) {
        if (task.allowed(group)[device] == 0) continue;
        if (walk.looks() + 1 >= limits.evaluations) return walk.cost();
        const double gain = walk.gain(group, device);
        if (gain <= most) continue;
        most = gain;
        best = device;
      }
      if (!best) continue;
      walk.move(group, *best);
      moved = true;
    }
  }
  return walk.cost();
}

double cost_of(std::string_view placer, const Problem& problem, const PlacetoEffort& effort) {
  const Schedule schedule = find_placer(placer).place(
      problem,
      {.budget = {.seconds = {}, .evaluations = effort.evaluations}, .threads = static_cast<unsigned>(effort.threads)});
  return static_cast<double>(simulate(scheduled_problem(problem, schedule), schedule).makespan.count);
}

namespace {

const char* const kNetworks[] = {"inception_v3:batch=64", "nmt:batch=128,layers=2"};

std::span<const char* const> networks(const PlacetoEffort& effort) {
  return std::span{kNetworks}.first(effort.smallest ? 1 : 2);
}

struct Variant {
  const char *title, *placer;
  bool intermediate;
};

void compare_trainings(const PlacetoEffort& effort, const std::string& head, std::span<const Variant> variants,
                       std::ostream& out) {
  TextTable table{{{"network"},
                   {"variant"},
                   {"best to start", Align::right},
                   {"last tenth to start", Align::right},
                   {"decides, to start", Align::right},
                   {"seconds each", Align::right}}};
  for (const char* network : networks(effort)) {
    const PlacementTask task{adam_problem(network, "4xK80")};
    RangeChart chart{.title = fmt::format("{}: best placement seen over the start", network)};
    for (const auto& [title, placer, intermediate] : variants) {
      std::vector<double> best, last, greedy, times;
      for (std::uint64_t seed = effort.first_seed; seed < effort.first_seed + effort.seeds; ++seed) {
        const TrainedNetwork trained = trained_on({&task, 1}, placer, effort, seed, intermediate);
        best.push_back(trained.result.best_cost.front() / task.start_cost);
        const auto& curve = trained.result.curve;
        const auto tenth = static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, curve.size() / 10));
        last.push_back(std::accumulate(curve.end() - tenth, curve.end(), 0.0) / static_cast<double>(tenth));
        greedy.push_back(greedy_cost(*trained.network, task) / task.start_cost);
        times.push_back(trained.seconds);
      }
      table.add_row({network, title, spread_text(best), spread_text(last), spread_text(greedy),
                     fmt::format("{:.0f}", upper_quantile_of(times))});
      chart.rows.push_back({title, best});
    }
    effort.add_chart(std::move(chart));
  }
  out << head
      << fmt::format("; {} updates of 8 placements, {} seeds from {} on: median (least to most), on 4xK80\n\n",
                     effort.updates, effort.seeds, effort.first_seed)
      << table.text() << "\n";
}

}  // namespace

void placeto_curves(const PlacetoEffort& effort, std::ostream& out) {
  constexpr const char* kCurves[] = {"inception_v3:batch=64", "nmt:batch=256,layers=4", "nasnet_mobile:batch=64"};
  constexpr double kShares[] = {0, 0.05, 0.1, 0.25, 0.5, 0.75, 1};
  std::vector<TextTable::Column> columns{{"network"}, {"placer"}};
  for (const double share : kShares) columns.push_back({fmt::format("{:.0f} %", 100 * share), Align::right});
  columns.push_back({"best seen", Align::right});
  columns.push_back({"heft", Align::right});
  TextTable table{columns};
  for (const char* network : std::span{kCurves}.first(effort.smallest ? 1 : std::size(kCurves))) {
    const PlacementTask task{adam_problem(network, "4xK80")};
    const double heft = cost_of("heft", task.problem, effort) / task.start_cost;
    for (const char* placer : {"placeto", "placeto-no-look-ahead"}) {
      std::vector<std::vector<double>> at(std::size(kShares));
      std::vector<double> best;
      for (std::uint64_t seed = effort.first_seed; seed < effort.first_seed + effort.seeds; ++seed) {
        const auto result = trained_on({&task, 1}, placer, effort, seed).result;
        const auto last = static_cast<double>(result.curve.size() - 1);
        for (std::size_t i = 0; i < at.size(); ++i)
          at[i].push_back(result.curve[static_cast<std::size_t>(kShares[i] * last)]);
        best.push_back(result.best_cost.front() / task.start_cost);
      }
      std::vector<std::string> row{network, placer};
      RangeChart chart{
          .title = fmt::format("{}, {}: mean step time of an update's episodes over the start's", network, placer)};
      for (std::size_t i = 0; i < at.size(); ++i)
        chart.rows.push_back({fmt::format("after {:.0f} % of the updates", 100 * kShares[i]), at[i]});
      chart.rows.push_back({"best seen", best});
      chart.rows.push_back({"heft", {heft}});
      effort.add_chart(std::move(chart));
      for (const auto& values : at) row.push_back(spread_text(values));
      row.push_back(spread_text(best));
      row.push_back(fmt::format("{:.3f}", heft));
      table.add_row(row);
    }
  }
  out << fmt::format(
             "Learning curves on 4xK80: mean step time of an update's episodes from the start, over the start's, as "
             "the training goes on; {} updates of 8 placements, {} seeds from {} on: median (least to most).\n\n",
             effort.updates, effort.seeds, effort.first_seed)
      << table.text() << "\n";
}

void placeto_orders(const PlacetoEffort& effort, std::ostream& out) {
  TextTable table{{{"network"},
                   {"as trained", Align::right},
                   {"mean", Align::right},
                   {"best", Align::right},
                   {"worst", Align::right},
                   {"spread %", Align::right}}};
  for (const char* network : networks(effort)) {
    const PlacementTask task{adam_problem(network, "4xK80")};
    const TrainedNetwork trained = trained_on({&task, 1}, "placeto", effort, effort.first_seed);
    std::vector<double> costs;
    for (std::size_t i = 0; i < effort.orders; ++i) {
      std::vector<std::uint32_t> order(task.size());
      std::iota(order.begin(), order.end(), std::uint32_t{0});
      Random random = Random::stream(1, i);
      random.shuffle(order);
      costs.push_back(greedy_cost(*trained.network, task, order));
    }
    const auto [best, worst] = std::ranges::minmax(costs);
    const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / static_cast<double>(costs.size());
    table.add_row({network, ms_text(greedy_cost(*trained.network, task)), ms_text(mean), ms_text(best), ms_text(worst),
                   fmt::format("{:.1f}", 100 * (worst / best - 1))});
  }
  out << fmt::format(
             "{} random orders of visit, one policy of {} updates, step ms on 4xK80. Published: within 5 % on "
             "average.\n\n",
             effort.orders, effort.updates)
      << table.text() << "\n";
}

void placeto_ablations(const PlacetoEffort& effort, std::ostream& out) {
  constexpr Variant kVariants[] = {{"placeto", "placeto", true},
                                   {"no look ahead, as the next", "placeto-no-look-ahead", true},
                                   {"simple aggregator", "placeto-simple-aggregator", true},
                                   {"simple partitioner", "placeto-simple-partitioner", true}};
  compare_trainings(effort, "Ablations. Published: 20 % worse with the simple aggregator, 13 % with the partitioner",
                    kVariants, out);
}

void placeto_rewards(const PlacetoEffort& effort, std::ostream& out) {
  constexpr Variant kVariants[] = {{"terminal", "placeto", false}, {"intermediate", "placeto", true}};
  compare_trainings(effort, "Rewards", kVariants, out);
}

}  // namespace trainyard::bench
