#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

struct PlanSearchOptions {
  std::vector<PipelineSchedule> schedules = {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b};
  std::size_t most_zero = 1;             // highest ZeRO stage
  std::size_t most_zero_with_ranks = 1;  // with communicating ranks or several stages, which ZeRO's exchanges delay
  std::size_t most_chunks = 2;           // per device, of interleaved
  std::size_t most_slices = 1;           // per microbatch, in plans of one stage whose ranks communicate
  bool stage_degrees = false;            // also search 1F1B plans whose stages have different degrees
  bool by_layer = false;                 // stages may recompute only their first layers
  std::size_t kept = 1;                  // upper limit on the plans returned
  double within = 1;                     // run plans whose bound is below this multiple of the best step
  bool proves = true;                    // tighten the bounds of plans that were not enumerated (schedule_bound)
  /// Filter on degrees, microbatch and schedule. The plan's cuts are arbitrary when it is called, except for plans
  /// whose stages have different degrees. Empty function: all plans.
  std::function<bool(const ParallelPlan&)> allowed = {};
  unsigned threads = 0;             // 0: the hardware's; the result does not depend on it
  std::function<bool()> stop = {};  // polled; true ends the search early
};

struct RatedPlan {
  ParallelPlan plan;
  PlanStep run;
};

struct PlanSearchResult {
  std::vector<RatedPlan> best;    // by bytes beyond the memory, then by step; differ in degrees, microbatch or schedule
  Nanoseconds bound;              // lower bound on the estimated step of every plan in memory; 0: time ran out first
  std::uint64_t evaluations = 0;  // plans run
  bool exact = false;             // every plan that could be better was evaluated
};

/// Searches for the plan with the shortest estimated step: data, tensor and pipeline degrees, microbatch, schedule,
/// ZeRO stage, cuts, and the recomputation of each stage.
///
/// Candidates (degrees, microbatch, ZeRO stage, schedule) are enumerated in the order of their lower bounds
/// (plan_bound), and pruned once the bound reaches `within` times the best step. For each candidate, cuts and
/// recomputation are enumerated if there are at most 4096 combinations. Otherwise dynamic programming minimizes the
/// slowest stage, with recomputation where a stage needs it to fit, and local search over single moves of a cut or of a
/// stage's recomputation (improve_plan) improves the 16 best plans. run_plan() evaluates every plan.
///
/// With `proves`, schedule_bound() then raises the bounds of candidates that were not enumerated, within a fixed
/// effort. With `stage_degrees`, search_stage_degrees() looks for shorter plans whose stages have different degrees, on
/// up to 64 devices; on more, `bound` is of plans with equal degrees.
///
/// Degrees whose devices cannot hold their shares of parameters, gradients and state (LeastMemory) are pruned before
/// their layers' costs are computed. Throws InputError ("plan") if no plan fits. If all devices together could not hold
/// one copy of these, it throws at once, and the help text has the number of devices that could. Throws "plan" also for
/// costs without layers, samples, devices or functions, and without schedules; "negative-time" for a negative pass.
PlanSearchResult search_plans(const PlanCosts& costs, const PlanSearchOptions& options = {});

/// Lower bound on the step of every plan that fits in memory and has the degrees, microbatch, ZeRO stage, schedule and
/// number of devices in the row of `like`, whatever its cuts and recomputation. Let m be the microbatches, p the
/// devices in the row, and A the time of one microbatch through all layers, forward and backward. "Sums" is the time of
/// accumulating the weight gradients of microbatches 2 to m. The bound is the largest of:
///
///     (1)  (m A + sums + all-reduce + update + fill of F) / p              work of the mean device, and its first wait
///     (2)  (m A + sums + fill of F and B) / p                              work, and its waits at beginning and end
///     (3)  A / (1 - (1 - 1/m)^p)                                           stages one behind the other
///     (4)  A without weight gradients                                      path of the first microbatch
///     (5)  m times the j + 1 shortest of the p j + 1 longest layers, sums  one device has so many of them, for any j
///     (6)  ZeRO 2: (m + 1)/2 all-reduces / p; ZeRO 3: 3 m halves / p       links of the mean device, several stages
///     (7)  m A - backward of l layers + all-reduce of l + 1 layers + update  one stage that overlaps sums, for any l
///     (8)  m sum over layers of b_l D_l / (p M - R)                        memory over time
///
/// Fill, in (1) and (2): a device waits until a microbatch has passed the stages before it, forward and then backward.
/// Each stage has at least one layer, so the total is at least p - 1, p - 2, ..., 1 times the shortest passes, the
/// shortest first.
///
/// (3) applies with one stage per device. If c_q is stage q's part of A, then m c_q + sum over r < q of c_r <= step for
/// every stage q and any cuts; a combination of these p inequalities gives (3). If weight gradients are separate tasks,
/// they can come last, so (2) and (3) use A and passes without them.
///
/// Recomputation: activations of one microbatch that exceed the memory of p devices are recomputed. A includes the
/// least time for that, as a fractional knapsack in the order of time per byte.
///
/// (7): if the sums of a single stage overlap its tasks, (1) counts only the part of them that occupies the device. But
/// for any buckets, the sums of the first l + 1 layers run one after the other once the last task has left layer l.
///
/// (8): layer l keeps b_l bytes of a microbatch from its forward pass until its input gradient is done (and its weight
/// gradients, if one task makes both). That is D_l later, since the layers behind it run both passes in between. All
/// bytes held at any time fit in p memories M less R, the resident bytes. (Little's law: the microbatches in flight are
/// the throughput times the time that each takes.) Recomputation lowers b_l and raises A. So for any x in [0, 1], the
/// step is at least the minimum over each layer's recomputation of x times (8) plus 1 - x times (1); the best x counts.
///
/// The result is lowered by the most that rounding can be off.
Nanoseconds plan_bound(const PlanCosts& costs, const ParallelPlan& like);

}  // namespace trainyard
