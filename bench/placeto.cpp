// The experiments of Addanki et al.: Placeto, NeurIPS 2019, on this library's predictions, beside the published
// numbers. The budgets are small ones unless --updates and its like say otherwise, and each page says what they were.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "measure.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/learned/policy.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/transform/training.hpp"
#include "trainyard/zoo/families.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using learned::Devices;
using learned::Evaluator;
using learned::PlacementTask;
using learned::TrainOptions;
using learned::TrainResult;
using trainyard::bench::median;
using Align = Table::Align;

namespace {

struct Effort {
  std::size_t updates = 100, seeds = 5, count = 8, random = 2000, orders = 64;
  unsigned threads = 0;
};

Problem problem_of(const std::string& model, const std::string& cluster) {
  return Problem{training_graph(make_network(model), {.optimizer = Optimizer::adam}),
                 make_cluster(preset_cluster(cluster))};
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string ms(double ns) { return fmt::format("{:.2f}", 1e-6 * ns); }

/// "median (least to most)"
std::string spread(std::vector<double> values) {
  const auto [least, most] = std::ranges::minmax(values);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", median(values), least, most);
}

struct Trained {
  std::unique_ptr<learned::PolicyNetwork<float>> network;
  TrainResult result;
  double seconds = 0;
};

Trained trained_on(std::span<const PlacementTask> tasks, std::string_view placer, const Effort& effort,
                   std::uint64_t seed, bool intermediate = false) {
  Trained trained{make_policy_network(placer, tasks.front().devices(), seed), {}, 0};
  trained.seconds = seconds_of([&] {
    trained.result = learned::train(
        *trained.network, tasks,
        {.updates = effort.updates, .threads = effort.threads, .seed = seed, .intermediate = intermediate});
  });
  return trained;
}

double greedy_cost(const Trained& trained, const PlacementTask& task, std::span<const std::uint32_t> order = {}) {
  return Evaluator{task}.cost(trained.network->run(task, nullptr, order)->devices);
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

// Table 1. Published: seconds a step on K80, 0: out of memory; placements evaluated until the best was found,
// thousands.
struct Row {
  const char *title, *network;
  std::size_t gpus;
  double cpu, one, expert, scotch, placeto, rnn, placeto_samples, rnn_samples;
};
constexpr Row kRows[] = {
    {"Inception-v3", "inception_v3:batch=64", 2, 12.54, 1.56, 1.28, 1.54, 1.18, 1.17, 1.6, 7.8},
    {"Inception-v3", "inception_v3:batch=64", 4, 12.54, 1.56, 1.15, 1.74, 1.13, 1.19, 5.8, 35.8},
    {"NMT", "nmt:batch=256,layers=4", 2, 0, 0, 0, 0, 2.32, 2.35, 20.4, 73},
    {"NMT", "nmt:batch=256,layers=4", 4, 0, 0, 0, 0, 2.63, 3.15, 94, 51.7},
    {"NASNet", "nasnet_mobile:batch=64", 2, 0, 1.28, 0.86, 1.28, 0.86, 0.89, 0, 0},
    {"NASNet", "nasnet_mobile:batch=64", 4, 0, 1.28, 0.84, 1.22, 0.74, 0.76, 0, 0},
};

void table1(const Effort& effort) {
  Table table{{{"network"},
               {"GPUs", Align::right},
               {"placer"},
               {"step ms", Align::right},
               {"to one GPU", Align::right},
               {"published", Align::right},
               {"to the best", Align::right},
               {"of 1000", Align::right},
               {"search s", Align::right}}};
  for (const Row& row : kRows) {
    const Problem problem = problem_of(row.network, fmt::format("{}xK80", row.gpus));
    const PlacementTask task{problem};
    double one = 0;
    const auto add = [&](const char* placer, double ns, bool fits, double published, double to_best = 0,
                         double published_to_best = 0, double seconds = 0) {
      const auto ratio = [&](double value, double base) {
        return value > 0 && base > 0 ? fmt::format("{:.2f}", value / base) : std::string{"-"};
      };
      table.add_row({row.title, fmt::format("{}", row.gpus), placer, ms(ns) + (fits ? "" : " (over)"), ratio(ns, one),
                     published > 0 && row.one > 0 ? ratio(published, row.one)
                     : published > 0              ? fmt::format("{:.2f} s", published)
                                                  : "-",
                     to_best > 0 ? fmt::format("{:.0f}", to_best) : "-",
                     published_to_best > 0 ? fmt::format("{:.1f}", published_to_best) : "-",
                     seconds > 0 ? fmt::format("{:.1f}", seconds) : "-"});
    };
    const auto from_catalogue = [&](const std::string& name, double published, PlaceOptions options = {}) {
      const auto list = placers();
      const auto placer = std::ranges::find(list, name, &Placer::name);
      if (placer == list.end()) return;
      Schedule schedule;
      const double seconds = seconds_of([&] { schedule = placer->place(problem, options); });
      const Timeline timeline = simulate(scheduled_problem(problem, schedule), schedule);
      if (name == "single" && timeline.fits()) one = static_cast<double>(timeline.makespan.count);
      add(name.c_str(), static_cast<double>(timeline.makespan.count), timeline.fits(), published, 0, 0, seconds);
    };
    from_catalogue("single", row.one);
    const Problem cpu = problem_of(row.network, "1xcpu-socket");
    const Timeline on_cpu = simulate(cpu, find_placer("single").place(cpu, {}));
    add("cpu only", static_cast<double>(on_cpu.makespan.count), on_cpu.fits(), row.cpu);
    from_catalogue("expert", row.expert);
    from_catalogue("scotch", row.scotch);
    for (const auto& [name, published, samples] :
         {std::tuple{"placeto", row.placeto, row.placeto_samples}, std::tuple{"rnn", row.rnn, row.rnn_samples}}) {
      const Trained trained = trained_on({&task, 1}, name, effort, 1);
      Simulation simulation{problem};
      const MemoryPeaks& peaks = simulation.peaks({.placement = task.placement(trained.result.best.front())});
      add(name, static_cast<double>(peaks.makespan.count), peaks.fits, published,
          static_cast<double>(trained.result.episode_of_best), samples, trained.seconds);
    }
    Evaluator evaluator{task};
    Random random{1};
    double best = 1e300;
    const double seconds = seconds_of([&] {
      for (std::size_t i = 0; i < effort.random; ++i)
        best = std::min(best, evaluator.cost(random_devices(task, random)));
    });
    add("best of random", best, true, 0, static_cast<double>(effort.random), 0, seconds);
    from_catalogue("heft", 0);
    from_catalogue("auto", 0, {.budget = {.seconds = {}, .evaluations = 20'000}, .threads = effort.threads});
  }
  fmt::print(
      "Table 1 on K80: {} updates of 8 placements, {} random placements (with the penalty for memory), auto with "
      "20,000 "
      "evaluations.\nPublished: measured step times, as ratios to one GPU where that fits; thousands of placements "
      "until "
      "the best.\n\n{}\n",
      effort.updates, effort.random, table.text());
}

/// Fig. 5: one policy for a family, on graphs that it has never seen.
void families(const Effort& effort) {
  Table table{{{"family"},
               {"placer"},
               {"zero-shot to optimized", Align::right},
               {"start to optimized", Align::right},
               {"random to optimized", Align::right},
               {"heft to optimized", Align::right},
               {"auto to optimized", Align::right},
               {"zero-shot ms", Align::right},
               {"training s", Align::right}}};
  for (const NetworkFamily& family : network_families()) {
    std::vector<PlacementTask> tasks;
    for (const std::string& member : family_members(family.name, 1, effort.count))
      tasks.emplace_back(problem_of(member, "4xV100"));
    const std::span<const PlacementTask> all{tasks};
    const auto training = all.first(effort.count / 2), unseen = all.subspan(effort.count / 2);
    std::vector<double> optimized;
    for (const PlacementTask& task : unseen)
      optimized.push_back(trained_on({&task, 1}, "placeto", effort, 1).result.best_cost.front());
    const auto others = [&](const char* placer) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < unseen.size(); ++i) {
        const Problem& problem = unseen[i].problem;
        const Schedule schedule = find_placer(placer).place(
            problem, {.budget = {.seconds = {}, .evaluations = 2'000}, .threads = effort.threads});
        const Timeline timeline = simulate(scheduled_problem(problem, schedule), schedule);
        ratios.push_back(static_cast<double>(timeline.makespan.count) / optimized[i]);
      }
      return spread(ratios);
    };
    const std::string heft = others("heft"), portfolio = others("auto");
    for (const char* placer : {"placeto", "rnn"}) {
      Effort larger = effort;
      larger.updates *= training.size();
      const Trained general = trained_on(training, placer, larger, 1);
      std::vector<double> zero_shot, start, chance, times;
      for (std::size_t i = 0; i < unseen.size(); ++i) {
        double cost = 0;
        times.push_back(1e3 * seconds_of([&] { cost = greedy_cost(general, unseen[i]); }));
        zero_shot.push_back(cost / optimized[i]);
        start.push_back(unseen[i].start_cost / optimized[i]);
        Evaluator evaluator{unseen[i]};
        Random random{i};
        std::vector<double> drawn;
        for (int draw = 0; draw < 20; ++draw)
          drawn.push_back(evaluator.cost(random_devices(unseen[i], random)) / optimized[i]);
        chance.push_back(median(drawn));
      }
      table.add_row({family.name, placer, spread(zero_shot), spread(start), spread(chance), heft, portfolio,
                     fmt::format("{:.0f}", median(times)), fmt::format("{:.0f}", general.seconds)});
    }
  }
  fmt::print(
      "Fig. 5 on 4xV100: {} graphs a family, the first half for training: {} updates for each; optimized: placeto "
      "trained on the unseen graph, {} updates.\nauto: 2,000 evaluations. Median (least to most) over the unseen "
      "graphs. Published: Placeto's "
      "zero-shot nearly equals optimized, the RNN's is near random.\n\n{}\n",
      effort.count, effort.updates, effort.updates, table.text());
}

void orders(const Effort& effort) {
  Table table{{{"network"},
               {"as trained", Align::right},
               {"mean", Align::right},
               {"best", Align::right},
               {"worst", Align::right},
               {"spread %", Align::right}}};
  for (const std::string model : {"inception_v3:batch=64", "nmt:batch=128,layers=2", "nasnet_mobile:batch=64"}) {
    const PlacementTask task{problem_of(model, "4xK80")};
    const Trained trained = trained_on({&task, 1}, "placeto", effort, 1);
    std::vector<double> costs;
    for (std::size_t i = 0; i < effort.orders; ++i) {
      std::vector<std::uint32_t> order(task.size());
      std::iota(order.begin(), order.end(), std::uint32_t{0});
      Random random = Random::stream(1, i);
      random.shuffle(order);
      costs.push_back(greedy_cost(trained, task, order));
    }
    const auto [best, worst] = std::ranges::minmax(costs);
    const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / static_cast<double>(costs.size());
    table.add_row({model, ms(greedy_cost(trained, task)), ms(mean), ms(best), ms(worst),
                   fmt::format("{:.1f}", 100 * (worst / best - 1))});
  }
  fmt::print(
      "{} random orders of visit, one policy of {} updates, step ms on 4xK80. Published: within 5 % on "
      "average.\n\n{}\n",
      effort.orders, effort.updates, table.text());
}

void compare_trainings(const Effort& effort, const std::string& head,
                       const std::vector<std::tuple<std::string, std::string, bool>>& variants) {
  Table table{{{"network"},
               {"variant"},
               {"best to start", Align::right},
               {"last tenth to start", Align::right},
               {"seconds each", Align::right}}};
  for (const std::string model : {"inception_v3:batch=64", "nmt:batch=128,layers=2"}) {
    const PlacementTask task{problem_of(model, "4xK80")};
    for (const auto& [name, placer, intermediate] : variants) {
      std::vector<double> best, last, times;
      for (std::uint64_t seed = 1; seed <= effort.seeds; ++seed) {
        const Trained trained = trained_on({&task, 1}, placer, effort, seed, intermediate);
        best.push_back(trained.result.best_cost.front() / task.start_cost);
        const auto& curve = trained.result.curve;
        const auto tenth = static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, curve.size() / 10));
        last.push_back(std::accumulate(curve.end() - tenth, curve.end(), 0.0) / static_cast<double>(tenth));
        times.push_back(trained.seconds);
      }
      table.add_row({model, name, spread(best), spread(last), fmt::format("{:.0f}", median(times))});
    }
  }
  fmt::print("{}; {} updates of 8 placements, {} seeds: median (least to most), on 4xK80\n\n{}\n", head, effort.updates,
             effort.seeds, table.text());
}

void ablations(const Effort& effort) {
  compare_trainings(effort, "Ablations. Published: 20 % worse with the simple aggregator, 13 % with the partitioner",
                    {{"placeto", "placeto", false},
                     {"simple aggregator", "placeto-simple-aggregator", false},
                     {"simple partitioner", "placeto-simple-partitioner", false}});
}

void rewards(const Effort& effort) {
  compare_trainings(effort, "Rewards", {{"terminal", "placeto", false}, {"intermediate", "placeto", true}});
}

struct Study {
  const char *name, *summary;
  void (*run)(const Effort&);
};
constexpr Study kStudies[] = {
    {"table1", "step times on 2 and 4 K80, and how many placements it took", table1},
    {"families", "Fig. 5: zero-shot on unseen graphs beside optimized and random", families},
    {"orders", "how much the order of visit changes", orders},
    {"ablations", "without messages, and without structure", ablations},
    {"rewards", "intermediate against terminal", rewards},
};

int usage() {
  std::fputs("usage: placeto STUDY [--updates N] [--seeds N] [--count N] [--random N] [--orders N] [--threads N]\n\n",
             stderr);
  for (const Study& study : kStudies) fmt::print(stderr, "  {:<12}{}\n", study.name, study.summary);
  return 2;
}

}  // namespace

int main(int count, char** words) {
  Effort effort;
  std::size_t threads = 0;
  const std::map<std::string_view, std::size_t*> options{{"--updates", &effort.updates}, {"--seeds", &effort.seeds},
                                                         {"--count", &effort.count},     {"--random", &effort.random},
                                                         {"--orders", &effort.orders},   {"--threads", &threads}};
  if (count < 2 || count % 2 != 0) return usage();
  for (int i = 2; i < count; i += 2) {
    const auto option = options.find(words[i]);
    const char* const end = words[i + 1] + std::strlen(words[i + 1]);
    if (option == options.end() || std::from_chars(words[i + 1], end, *option->second).ptr != end) return usage();
  }
  effort.threads = static_cast<unsigned>(threads);
  for (const Study& study : kStudies)
    if (words[1] == std::string_view{study.name}) {
      study.run(effort);
      return 0;
    }
  return usage();
}
