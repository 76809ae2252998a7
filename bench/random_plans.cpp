// Compares the placer `plan` with random plans over all its dimensions, by simulation: whether a random plan is
// shorter, and the errors of the estimates of step time and memory.
//
//     random_plans MODEL CLUSTER [batch=N] [plans=N] [seed=N] [memory=SHARE] [zero=STAGE] [extremes=FACTOR]
//
// memory: capacity, as a share of the peak of the placer's plan on the unchanged cluster. zero: ZeRO stage of all
// random plans; random by default. extremes: prints plans with a step estimate off by more than this factor.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/place/parallel/replicas_placer.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/stage_cost.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

template <class T>
const T& one_of(Random& random, const std::vector<T>& items) {
  return items[random.below(items.size())];
}

/// A random plan with numbers in range. It may be invalid; run_plan() and place_by_plan() check it.
ParallelPlan random_plan(Random& random, const PlanCosts& costs, std::optional<std::size_t> zero) {
  ParallelPlan plan;
  const LayerDegree tensor = one_of(random, costs.layer_degrees);
  plan.tensor = tensor.ranks;
  plan.sequence = tensor.sequence;
  plan.context = tensor.context;
  plan.exchange = tensor.exchange;
  plan.experts = tensor.experts;
  plan.data = one_of(random, divisors(costs.batch));
  const std::size_t most = std::min(costs.layers, costs.devices / (plan.replicas() * plan.tensor));
  if (most == 0) return plan;
  const std::size_t row = 1 + random.below(most);
  constexpr int kSchedules = static_cast<int>(PipelineSchedule::dualpipe_v) + 1;
  if (row > 1) plan.schedule = static_cast<PipelineSchedule>(random.below(kSchedules));
  plan.chunks = chunks_of(plan.schedule);
  if (row * plan.chunks > costs.layers) return plan;
  std::set<std::size_t> cuts;
  while (cuts.size() + 1 < row * plan.chunks) cuts.insert(1 + random.below(costs.layers - 1));
  plan.cuts.assign(cuts.begin(), cuts.end());
  plan.microbatch = one_of(random, divisors(costs.batch / plan.data));
  plan.zero = zero ? *zero : random.below(4);
  if (row == 1 && tensor.communicates() && plan.microbatch % 2 == 0 && random.chance(0.3)) plan.slices = 2;
  if (random.chance(0.5))
    for (std::size_t s = 0; s < plan.stages(); ++s)
      plan.recompute.emplace_back(static_cast<StageRecompute>(random.below(4)),
                                  random.chance(0.5) ? StageRecomputation::kAll : 1 + random.below(costs.layers));
  if (row == 1 || plan.schedule != PipelineSchedule::one_f_one_b || plan.experts * plan.context > 1) return plan;
  if (!random.chance(0.5)) return plan;
  // Stages with different degrees.
  std::size_t left = costs.devices;
  for (std::size_t i = 0; i < row; ++i) {
    StageDegrees each{one_of(random, divisors(plan.microbatch)), one_of(random, costs.layer_degrees)};
    if (each.devices() + row - 1 - i > left || each.tensor.context * each.tensor.experts > 1) each = {};
    left -= each.devices();
    plan.degrees.push_back(each);
  }
  plan.data = plan.tensor = 1;
  plan.sequence = false;
  return plan;
}

struct Asked {
  std::string model, cluster;
  std::size_t batch = 64, plans = 400;
  std::uint64_t seed = 1;
  double memory = 0;
  std::optional<std::size_t> zero;
  double extremes = 0;  // prints plans whose estimate is off by more than this factor

  PlanPlacerOptions options() const { return {.batch = static_cast<std::int64_t>(batch)}; }
};

Asked parsed(int count, char** words) {
  Asked asked{words[1], words[2]};
  for (int i = 3; i < count; ++i) {
    const std::string word = words[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals < word.size() ? word.substr(equals + 1) : "";
    if (name == "batch")
      asked.batch = std::stoul(value);
    else if (name == "plans")
      asked.plans = std::stoul(value);
    else if (name == "seed")
      asked.seed = std::stoul(value);
    else if (name == "memory")
      asked.memory = std::stod(value);
    else if (name == "zero")
      asked.zero = std::stoul(value);
    else if (name == "extremes")
      asked.extremes = std::stod(value);
    else
      throw std::invalid_argument("no option '" + name + "': batch, plans, seed, memory, zero and extremes are");
  }
  return asked;
}

Problem problem_of(const Asked& asked, std::optional<Bytes> memory) {
  ClusterSpec spec = preset_cluster(asked.cluster);
  if (memory)
    for (auto& device : spec.devices) device.memory = *memory;
  Graph graph =
      training_graph(make_network(fmt::format("{}{}batch={}", asked.model,
                                              asked.model.find(':') == std::string::npos ? ':' : ',', asked.batch)),
                     {.optimizer = Optimizer::adam, .granularity = Granularity::fine});
  return {std::move(graph), make_cluster(spec)};
}

struct Step {
  Nanoseconds time;
  Bytes peak;
  bool fits;
};

Step simulated(const Problem& problem, const Schedule& schedule) {
  const Timeline timeline = simulate(problem, schedule);
  Bytes peak{0};
  for (const DeviceUse& use : timeline.devices) peak = std::max(peak, use.peak);
  return {timeline.makespan, peak, timeline.fits()};
}

/// Minimum, 10th, 50th and 90th percentile, and maximum.
std::string spread(std::vector<double> ratios) {
  if (ratios.empty()) return "-";
  std::ranges::sort(ratios);
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  return fmt::format("{:.2f} {:.2f} {:.2f} {:.2f} {:.2f}", at(0), at(0.1), at(0.5), at(0.9), at(1));
}

double ratio(auto a, auto b) { return static_cast<double>(a.count) / static_cast<double>(b.count); }

void compare(const Asked& asked) {
  std::optional<Bytes> memory;
  if (asked.memory > 0) {
    const Problem roomy = problem_of(asked, std::nullopt);
    const Step step = simulated(roomy, place_plan(roomy, asked.options()));
    memory = Bytes{static_cast<std::int64_t>(asked.memory * static_cast<double>(step.peak.count))};
  }
  const Problem problem = problem_of(asked, memory);
  const std::string where =
      fmt::format("{} {}{}", asked.model, asked.cluster, memory ? " of " + format_bytes(*memory) : "");
  std::optional<Schedule> placed;
  try {
    placed = place_plan(problem, asked.options());
  } catch (const InputError& error) {
    fmt::print("{}: {}\n", where, error.what());
  }
  const Step own = placed ? simulated(problem, *placed) : Step{{}, {}, false};

  const Layers layers = find_layers(problem.graph());
  std::vector<DeviceId> devices = ring_order(problem, worthy_devices(problem));
  ChainOfBlocks chain{problem, layers, std::move(devices), asked.batch, [](const ParallelPlan&) { return true; }};
  const PlanCosts costs = chain.costs();
  Random random{asked.seed};
  std::optional<std::pair<Step, ParallelPlan>> best;
  std::vector<double> steps, peaks;
  std::size_t fitting = 0, below = 0;
  for (std::size_t tried = 0, made = 0; made < asked.plans && tried < 1000 * asked.plans; ++tried) {
    const ParallelPlan plan = random_plan(random, costs, asked.zero);
    try {
      const PlanStep estimate = run_plan(costs, plan);
      const Step step = simulated(problem, place_by_plan(problem, plan, asked.options()));
      ++made;
      steps.push_back(ratio(estimate.step, step.time));
      if (asked.extremes > 1 && std::max(steps.back(), 1 / steps.back()) > asked.extremes)
        fmt::print("  {:.2f}: {}; cuts {}\n", steps.back(), describe(plan), fmt::join(plan.cuts, " "));
      peaks.push_back(ratio(*std::ranges::max_element(estimate.peaks), step.peak));
      if (!step.fits) continue;
      ++fitting;
      if (placed && step.time < placed->plan_bound->simulated) ++below;
      if (!best || step.time < best->first.time) best = {step, plan};
    } catch (const InputError&) {  // an invalid plan
    }
  }
  const bool better = best && (!own.fits || best->first.time < own.time);
  fmt::print("{}: {} {}{}; {} of {} random plans fit, best {}{}; estimated step {}, memory {}{}\n", where,
             better ? "WORSE" : "ok", placed ? format_time(own.time) : "-", own.fits ? "" : " (does not fit)", fitting,
             steps.size(), best ? format_time(best->first.time) : "-",
             better && own.fits ? fmt::format(" ({:.1f} %)", 100 * (1 - ratio(best->first.time, own.time))) : "",
             spread(steps), spread(peaks), below ? fmt::format("; {} BELOW THE BOUND", below) : "");
  if (better) {
    fmt::print("  placed: {}\n  better: {}; cuts {}, estimated {}\n", placed ? describe(*placed->parallel) : "-",
               describe(best->second), fmt::join(best->second.cuts, " "),
               format_time(run_plan(costs, best->second).step));
    for (const StageRecomputation& each : best->second.recompute)
      fmt::print("  recomputes {} of {} layers\n", static_cast<int>(each.what), static_cast<std::int64_t>(each.layers));
  }
}

}  // namespace

int main(int count, char** words) try {
  if (count < 3) {
    std::fputs(
        "usage: random_plans MODEL CLUSTER [batch=N] [plans=N] [seed=N] [memory=SHARE] [zero=STAGE] "
        "[extremes=FACTOR]\n",
        stderr);
    return 2;
  }
  compare(parsed(count, words));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "random_plans: {}\n", error.what());
  return 1;
}
