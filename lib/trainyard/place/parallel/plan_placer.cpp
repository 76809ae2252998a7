#include "trainyard/place/parallel/plan_placer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/place/parallel/plan_setting.hpp"
#include "trainyard/place/parallel/plan_trials.hpp"
#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/least_step.hpp"
#include "trainyard/plan/plan_fitting.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

/// Limit on the small plans that are simulated.
constexpr std::size_t kSmallTried = 256;
/// On few devices, plans within this factor of the best estimate are simulated: estimates are off by that much if
/// collectives delay each other, or if kinds of devices are mixed.
constexpr double kWithin = 1.1;
constexpr std::size_t kFewDevices = 16;
/// Slices of a microbatch. Two hide all communication that more would, if ops take longer than it.
constexpr std::size_t kSlices = 2;

bool has_weight_gradients(const Graph& graph) {
  const IdMap<TensorId, bool> gradients = parameter_gradients(graph);
  return std::ranges::any_of(
      graph.ops(), [&](OpId op) { return graph.type(op) != "AddGrad" && makes_only_gradients(graph, op, gradients); });
}

/// Orders plans for simulation: those that fit by the estimate, alternating with those that exceed the memory by at
/// most a fifth and may fit as simulated; then the others. `plans` are sorted by excess memory, then by step.
std::vector<RatedPlan> by_likely_step(std::vector<RatedPlan> plans, std::optional<Bytes> memory) {
  if (!memory) return plans;
  const auto beyond =
      std::ranges::find_if(plans, [&](const RatedPlan& each) { return each.run.excess(memory) > Bytes{0}; });
  std::vector<RatedPlan> almost, turns;
  for (auto each = beyond; each != plans.end(); ++each)
    if (*std::ranges::max_element(each->run.peaks) <= Bytes{memory->count / 5 * 6}) almost.push_back(*each);
  sort_by(almost, [](const RatedPlan& each) { return each.run.step; });
  auto next = almost.begin();
  for (auto each = plans.begin(); each != beyond || next != almost.end();) {
    if (each != beyond) turns.push_back(*each++);
    if (next != almost.end()) turns.push_back(*next++);
  }
  const auto is_almost = [&](const RatedPlan& each) {
    return std::ranges::any_of(almost, [&](const RatedPlan& other) { return other.plan == each.plan; });
  };
  std::copy_if(beyond, plans.end(), std::back_inserter(turns), [&](const RatedPlan& each) { return !is_almost(each); });
  return turns;
}

/// The nearest plan, by the estimate, that fits. It differs in the fewest of these: ZeRO 1 to 3, a smaller microbatch,
/// and attention or blocks of all stages recomputed. The quickest one on a tie.
std::optional<RatedPlan> nearest_that_fits(const PlanCosts& costs, const ParallelPlan& plan) {
  std::optional<RatedPlan> best;
  std::size_t fewest = 4;
  for (const std::size_t zero : std::set<std::size_t>{plan.zero, std::max<std::size_t>(plan.zero, 1), 2, 3})
    for (const std::size_t microbatch : divisors(plan.microbatch))
      for (const StageRecompute what : {StageRecompute::no, StageRecompute::attention, StageRecompute::blocks}) {
        ParallelPlan each = plan;
        each.zero = zero;
        each.microbatch = microbatch;
        if (what != StageRecompute::no) each.recompute.assign(plan.stages(), what);
        const std::size_t changes = static_cast<std::size_t>(zero != plan.zero) +
                                    static_cast<std::size_t>(microbatch != plan.microbatch) +
                                    static_cast<std::size_t>(what != StageRecompute::no);
        if (changes > fewest) continue;
        try {
          RatedPlan rated{each, run_plan(costs, each)};
          if (rated.run.excess(costs.memory) > Bytes{0}) continue;
          if (changes == fewest && best && rated.run.step >= best->run.step) continue;
          best = std::move(rated);
          fewest = changes;
        } catch (const InputError&) {  // e.g. fewer samples than replicas
        }
      }
  return best;
}

Bytes peak_of(const PlanStep& run) { return *std::ranges::max_element(run.peaks); }

/// The nearest plan that fits as simulated, among a few that fit by the estimate, and the memory that it leaves.
std::optional<std::pair<ParallelPlan, Bytes>> nearest_simulated(PlanCosts costs, const PlanSetting& setting,
                                                                const ParallelPlan& plan, const PlanStep& run,
                                                                Bytes spare) {
  const Bytes memory = *costs.memory;
  RatedPlan last{plan, run};
  for (int tries = 0; tries < 4; ++tries) {
    // Assumes that estimated and simulated peaks are proportional.
    const double share = static_cast<double>(memory.count) / static_cast<double>((memory - spare).count);
    const Bytes full{static_cast<std::int64_t>(share * static_cast<double>(peak_of(last.run).count))};
    costs.memory = std::min(*costs.memory - Bytes{1}, full);
    const std::optional<RatedPlan> next = nearest_that_fits(costs, plan);
    if (!next) return std::nullopt;
    const PlannedSchedule made = setting.planned(next->plan, setting.options.stop);
    spare = made.spare.value_or(memory - peak_of(next->run));
    if (spare >= Bytes{0}) return std::pair{next->plan, spare};
    last = *next;
  }
  return std::nullopt;
}

/// Note for a plan that lacks memory as simulated. `run` is the estimate.
std::string beyond_memory(const PlanCosts& costs, const PlanSetting& setting, const ParallelPlan& plan,
                          const PlanStep& run, Bytes spare) {
  const Bytes memory = *costs.memory;
  const auto fits = nearest_simulated(costs, setting, plan, run, spare);
  return fmt::format(
      "the plan needs {}; {}",
      costs.share_of_memory
          ? fmt::format("{} more memory than a device has", format_bytes(Bytes{0} - spare))
          : fmt::format("{} per device, and a device has {}", format_bytes(memory - spare), format_bytes(memory)),
      fits ? fmt::format("the nearest plan that fits ({}) {}", describe(fits->first),
                         costs.share_of_memory
                             ? fmt::format("leaves at least {} of each device free", format_bytes(fits->second))
                             : fmt::format("needs {}", format_bytes(memory - fits->second)))
           : fmt::format("no plan found with these degrees fits: the placer plan also tries other degrees on {}",
                         counted(setting.devices.size(), "device")));
}

struct SearchedPlans {
  PlannedSchedule best;
  PlanBound bound;  // estimated 0 if time was up
};

/// The best plan for this order of the devices.
SearchedPlans plans_in_order(const Problem& problem, const PlanPlacerOptions& options, DeviceOrder order) {
  const Graph& graph = problem.graph();
  PlanSetting setting{problem, options, order};
  PlanSearchOptions search{.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved},
                           .most_zero = 3,
                           .most_slices = kSlices,
                           .stage_degrees = setting.may_differ_by_stage(),
                           .by_layer = true,
                           .kept = kSmallTried,
                           .within = setting.devices.size() <= kFewDevices ? kWithin : 1,
                           .threads = options.threads,
                           .stop = options.stop_searching ? options.stop_searching : options.stop};
  const bool few = setting.devices.size() <= kFewDevices;
  if (few) search.schedules.push_back(PipelineSchedule::gpipe);
  if (has_weight_gradients(graph)) {
    if (few) search.schedules.push_back(PipelineSchedule::dualpipe_v);
    for (const auto each : {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2, PipelineSchedule::zb_v,
                            PipelineSchedule::v_half, PipelineSchedule::v_min})
      search.schedules.push_back(each);
  }
  search.allowed = [&](const ParallelPlan& plan) { return setting.detail_of(plan).has_value(); };
  PlanTrials trials{setting, std::move(search)};
  PlanSearchResult found = search_plans(trials.costs(), trials.search());
  const Nanoseconds promised = found.best.front().run.step;
  found.best = by_likely_step(std::move(found.best), trials.costs().memory);
  trials.choose(found.best);
  SimulatedPlans best = trials.best_of(found.best), more;
  if (!best.best && best.refusal) throw InputError(*best.refusal);
  if (!best.best)
    refuse("too-large",
           fmt::format("graph '{}' is too large: no plan for it over {} devices can be simulated", graph.name(),
                       setting.devices.size()),
           "use fewer devices, or a coarser graph");
  try {
    trials.search_with_less_memory(best, found.best, promised);
    trials.improve(best);
    more = trials.search_with_more_zero(best.best->outcome, promised, found.bound);
    trials.improve(more);
  } catch (const OutOfTime&) {  // keep the best so far
  }
  best.add(std::move(more));
  SearchedPlans result{*std::move(best.best), {Nanoseconds{0}, found.bound}};
  if (found.bound > Nanoseconds{0})
    result.bound.simulated = least_step(setting.chain.least_costs(), trials.search(), result.best.outcome.makespan);
  if (result.bound.simulated == Nanoseconds{0}) result.bound.estimated = Nanoseconds{0};  // not known in time
  return result;
}

}  // namespace

Schedule place_plan(const Problem& problem, const PlanPlacerOptions& options) {
  if (options.candidates == 0) refuse("range", "0 candidates leave no plan to simulate", "give 1 or more candidates");
  check_training(problem.graph());
  std::optional<SearchedPlans> best;
  std::optional<InputError> refusal;
  PlanBound bound{kLongestTime, kLongestTime};  // the least of all orders
  for (const DeviceOrder order : device_orders(problem)) {
    try {
      SearchedPlans each = plans_in_order(problem, options, order);
      bound = {std::min(bound.simulated, each.bound.simulated), std::min(bound.estimated, each.bound.estimated)};
      if (!best || each.best.outcome < best->best.outcome) best = std::move(each);
    } catch (const InputError& error) {  // another order may fit in memory
      if (!refusal) refusal = error;
    } catch (const OutOfTime&) {
      if (!best) throw;
      bound.estimated = Nanoseconds{0};
      break;
    }
  }
  if (!best) throw InputError(*refusal);
  Schedule schedule = std::move(best->best.schedule);
  if (bound.estimated > Nanoseconds{0}) schedule.plan_bound = bound;
  return schedule;
}

Schedule place_by_plan(const Problem& problem, const ParallelPlan& plan, const PlanPlacerOptions& options) {
  PlanSetting setting{problem, options, plan.order};
  check_plan(setting.chain.own_costs(plan), plan);
  if (const std::size_t parts = setting.batch / plan.data / plan.microbatch; parts > limits::kMostRewrittenOps)
    refuse("too-large", fmt::format("a step of {} microbatches is too large to be simulated", parts),
           "use larger microbatches, or fewer samples");
  const PlanCosts costs = setting.chain.costs(plan);
  const PlanStep run = run_plan(costs, plan);
  const bool may_lack = costs.memory && peak_of(run) > Bytes{costs.memory->count / 2};
  PlannedSchedule made = setting.planned(plan, options.stop, limits::kMostRewrittenOps, may_lack);
  if (may_lack && made.spare.value_or(Bytes{0}) < Bytes{0})
    made.schedule.notes.push_back(beyond_memory(costs, setting, plan, run, *made.spare));
  bool shares = plan.zero == 0;
  for (std::size_t i = 0; i < plan.devices_in_row(); ++i) shares = shares || plan.shards(i).state > 1;
  if (!shares)
    made.schedule.notes.push_back(fmt::format("ZeRO {} has no effect: there is only one replica", plan.zero));
  return std::move(made.schedule);
}

Schedule place_by_planner(const Problem& problem, const Planner& planner, const PlanPlacerOptions& options) {
  if (planner.plan == nullptr) refuse("planner", "the planner has no function that plans", "set Planner::plan");
  PlanSetting setting{problem, options};
  PlanCosts costs = setting.chain.costs();
  std::erase_if(costs.layer_degrees,
                [](const LayerDegree& degree) { return degree.context > 1 || degree.experts > 1; });
  const PlannerOptions asked{.allowed = [&](const ParallelPlan& plan) { return setting.detail_of(plan).has_value(); },
                             .stop = options.stop,
                             .stage_degrees = setting.may_differ_by_stage()};
  std::optional<PlannedSchedule> found;
  // Planners assume equal devices: the times are those of the slowest, the memory that of the smallest.
  if (costs.kind)
    costs.layer = [kind = costs.kind(0, costs.devices), layer = costs.layer](std::size_t i, std::size_t samples,
                                                                             LayerDegree degree) {
      degree.kind = kind;
      return layer(i, samples, degree);
    };
  costs.kind = {};
  for (const DeviceId device : setting.devices)
    if (const auto own = problem.cluster().device(device).memory) costs.memory = std::min(costs.memory, own);
  costs.share_of_memory = {};
  const auto memory = costs.memory;
  for (std::int64_t tenths = 10; tenths >= kLeastTenths; --tenths) {
    if (memory) costs.memory = Bytes{memory->count / 10 * tenths};
    try {
      const PlannerAnswer answer = planner.plan(costs, asked);
      if (!std::isfinite(answer.objective))
        refuse("planner", fmt::format("the objective of plan '{}' is {}", describe(answer.plan), answer.objective),
               "return the planner's own prediction of the step time, in nanoseconds");
      PlannedSchedule made = setting.planned(answer.plan);
      made.schedule.notes.push_back(fmt::format("{}; the planner's own objective is {}", describe(answer.plan),
                                                format_time(nanoseconds_from_seconds(answer.objective / 1e9))));
      if (!found || made.outcome.excess == Bytes{0}) found = std::move(made);
    } catch (const InputError&) {  // no plan fits in so little, or one that fits is too large
      if (!found) throw;
      break;
    } catch (const OutOfTime&) {
      if (!found) throw;
      break;
    }
    if (found->outcome.excess == Bytes{0} || !memory) break;
  }
  return std::move(found->schedule);
}

std::int64_t assumed_batch(const Problem& problem) {
  return static_cast<std::int64_t>(batch_of({}, worthy_devices(problem).size()));
}

std::vector<std::string> plan_blocks(const Problem& problem) {
  check_training(problem.graph());
  const Layers layers = find_layers(problem.graph());
  return ChainOfBlocks{problem, layers, worthy_devices(problem), 1}.names();
}

}  // namespace trainyard
