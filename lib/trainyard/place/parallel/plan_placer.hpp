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

/// How the collectives of a plan's replicas and tensor ranks are simulated: by rings of sends and additions, as whole
/// tasks, or whole and folded (Replicate); fitting: the first of these that makes at most limits::kRewrittenOps ops,
/// over several hosts of a fabric without the rings, which pass each host once and so use one of its network cards.
enum class PlanDetail : std::uint8_t { fitting, rings, whole, folded };

inline constexpr Choice kPlanDetail{
    "detail",
    {{"fitting", PlanDetail::fitting},
     {"rings", PlanDetail::rings},
     {"whole", PlanDetail::whole},
     {"folded", PlanDetail::folded}},
    PlanDetail::fitting,
    "how collectives are simulated: rings (sends and additions), whole (a task each), folded "
    "(whole, and one stands for all replicas and ranks that do the same), fitting (the first of "
    "these that is not too large)"};

struct PlanPlacerOptions {
  std::optional<std::int64_t> batch = {};  // samples of a step, 1 or more; none: 16 for each device
  std::size_t candidates = 12;             // plans that are simulated; more than one: all of small graphs
  PlanDetail detail = PlanDetail::fitting;
  unsigned threads = 0;
  Team* team = nullptr;  // its ranks share the candidates
  std::function<bool()> stop = {};
  std::function<bool()> stop_searching = {};  // by estimates, so that there is time to simulate what it has found
};

/// Data, context, expert, tensor and pipeline parallelism in one plan: how many shares of the batch, ranks that share a
/// sequence (powers of two to 64), replicas that divide experts, tensor ranks (to 64, within a host) and stages, how
/// large a microbatch, which pipeline schedule (1f1b, interleaved, and where gradients of weights are ops of their own
/// those of zero bubble; on up to 16 devices gpipe and dualpipe-v too), where the stages are cut, what is computed
/// again, whether replicas share the optimizer's state, or weights too, and where devices differ which are first
/// (device_orders), each order searched for itself. Plans are searched by their estimates (search_plans over
/// ChainOfBlocks); the best of different degrees are simulated, as schedules of the problem (schedule_of), and fitted
/// to the memory that they then have (Fitting), where none fits more; the best of these are improved by single moves,
/// simulated too, and the best is returned. ZeRO 2 and 3 are tried with replicas alone, and within one host, where
/// memory is short, with ranks and stages. Schedule::plan_bound is of all of them, as simulated (least_step); none
/// where time was up before all were enumerated.
///
/// Throws InputError ("no-training"), "plan" where no plan fits, "too-large" where none can be simulated, with what
/// stands in the way of a fold, "range" for no candidates; OutOfTime where none was simulated in time: though time is
/// up, the first are simulated until one fits, of a quarter of a million ops together.
Schedule place_plan(const Problem& problem, const PlanPlacerOptions& options = {});

/// A plan of one's own as a schedule of the problem; the nearest that fits among its notes, where as simulated it
/// does not: with ZeRO 1, smaller microbatches, or attention or blocks computed again. Throws InputError as
/// check_plan() does ("plan": ranks that share no parameters, for one), "no-training", "too-large"; OutOfTime.
Schedule place_by_plan(const Problem& problem, const ParallelPlan& plan, const PlanPlacerOptions& options = {});

/// The answer of a published planner as a schedule of the problem, with its own objective among the notes: the first
/// that fits as simulated, planned with all of the memory, or 90, 80, ... 50 % of it. Throws as place_by_plan(), and
/// "plan" where none of its plans fits, "planner" without a function or a number as objective.
Schedule place_by_planner(const Problem& problem, const Planner& planner, const PlanPlacerOptions& options = {});

/// The samples of a step that plans are made for where nothing says how many there are: 16 for each device.
std::int64_t assumed_batch(const Problem& problem);

/// The blocks of layers that plans of the problem cut, by name, in order.
std::vector<std::string> plan_blocks(const Problem& problem);

}  // namespace trainyard
