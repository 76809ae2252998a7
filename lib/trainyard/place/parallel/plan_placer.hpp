#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/place/parameters.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/planners/planner.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

class Team;

/// How the collectives of a plan's replicas and tensor ranks are simulated: as rings of sends and additions, as whole
/// tasks, or whole and folded (Replicate). `fitting` is the first of these that makes at most limits::kRewrittenOps
/// ops. Over several hosts of a fabric it leaves out rings, which pass each host once and so use one of its network
/// cards.
enum class PlanDetail : std::uint8_t { fitting, rings, whole, folded };

inline constexpr Choice kPlanDetail{
    "detail",
    {{"fitting", PlanDetail::fitting},
     {"rings", PlanDetail::rings},
     {"whole", PlanDetail::whole},
     {"folded", PlanDetail::folded}},
    PlanDetail::fitting,
    "how collectives are simulated: rings (sends and additions), whole (one task each), folded (as whole, with one "
    "device for all replicas and ranks that do the same), fitting (the first of these that is not too large)"};

struct PlanPlacerOptions {
  std::optional<std::int64_t> batch = {};  // samples of a step, 1 or more; none: 16 for each device
  std::size_t candidates = 12;             // plans to simulate; if more than one, all of small graphs
  PlanDetail detail = PlanDetail::fitting;
  unsigned threads = 0;
  Team* team = nullptr;  // its ranks share the candidates
  std::function<bool()> stop = {};
  std::function<bool()> stop_searching = {};  // ends the search by estimates, to leave time to simulate
};

/// Searches for a plan with data, context, expert, tensor and pipeline parallelism. The plan decides:
///
///   - the shares of the batch, the ranks that share a sequence (powers of two to 64), the replicas that divide
///     experts, the tensor ranks (to 64, within a host), the stages and where they are cut;
///   - the microbatch and the pipeline schedule (1f1b, interleaved; those of zero bubble if gradients of weights are
///     ops by themselves; on up to 16 devices also gpipe and dualpipe-v);
///   - what is recomputed, and whether replicas share the optimizer's state, or weights too;
///   - if devices differ, which come first (device_orders); each order is searched for itself.
///
/// Plans are searched by their estimates (search_plans over ChainOfBlocks). The best of different degrees are
/// simulated, as schedules of the problem (schedule_of), and fitted to the memory that the simulation shows (Fitting).
/// The best of these are improved by single moves, which are simulated too, and the best is returned. ZeRO 2 and 3 are
/// tried with replicas alone and, within one host and if memory is short, with ranks and stages. Schedule::plan_bound
/// is a lower bound on all of these plans, as simulated (least_step); it is absent if time was up before all were
/// enumerated.
///
/// Throws InputError "no-training"; "plan" if no plan fits; "too-large" if none can be simulated, with the obstacle to
/// a fold; "range" for no candidates; OutOfTime if none was simulated in time. When time is up, the first plans are
/// still simulated until one fits, up to a quarter of a million ops together.
Schedule place_plan(const Problem& problem, const PlanPlacerOptions& options = {});

/// A given plan as a schedule of the problem. If it does not fit as simulated, a note names the nearest plan that does:
/// with a higher ZeRO stage, smaller microbatches, or attention or blocks recomputed. Throws InputError as check_plan()
/// does ("plan", for example if ranks share no parameters), "no-training", "too-large"; OutOfTime.
Schedule place_by_plan(const Problem& problem, const ParallelPlan& plan, const PlanPlacerOptions& options = {});

/// The answer of a published planner as a schedule of the problem, with its own objective in a note. The planner gets
/// all of the memory, then 90, 80, ... 50 % of it, until its plan fits as simulated. Throws as place_by_plan() does;
/// "plan" if no plan fits its memory; "planner" if it has no function or its objective is not a number.
Schedule place_by_planner(const Problem& problem, const Planner& planner, const PlanPlacerOptions& options = {});

/// Samples of a step that plans assume if the batch is unknown: 16 for each device worth using.
std::int64_t assumed_batch(const Problem& problem);

/// Names of the blocks of layers between which plans of the problem cut, in order.
std::vector<std::string> plan_blocks(const Problem& problem);

}  // namespace trainyard
