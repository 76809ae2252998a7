#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

struct PlanSearchOptions {
  std::vector<PipelineSchedule> schedules = {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b};
  std::size_t most_zero = 1;
  std::size_t most_zero_with_ranks = 1;  // or several stages, whose exchanges gathers and scatters hold up
  std::size_t most_chunks = 2;           // of interleaved
  std::size_t most_slices = 1;           // of microbatches, of one stage whose ranks communicate
  bool stage_degrees = false;            // plans of 1F1B whose stages differ besides
  bool by_layer = false;                 // stages may compute some of their layers again: the first ones
  std::size_t kept = 1;                  // how many of the best plans are returned
  double within = 1;                     // plans are run whose bound is below so many times the best one's step
  bool proves = true;                    // what was not enumerated is bounded by its schedule
  /// Asked of degrees, microbatch and schedule; the cuts are any, but for those of stages that differ.
  std::function<bool(const ParallelPlan&)> allowed = {};
  unsigned threads = 0;  // 0: as many as the machine runs at once; the result is the same
  std::function<bool()> stop = {};
};

struct RatedPlan {
  ParallelPlan plan;
  PlanStep run;
};

struct PlanSearchResult {
  std::vector<RatedPlan>
      best;           // by bytes beyond the memory, then by step; of different degrees, microbatch or schedule
  Nanoseconds bound;  // no plan of these dimensions within memory is estimated to take less; 0: not known in time
  std::uint64_t evaluations = 0;
  bool exact = false;  // every plan that could be better was looked at
};

/// The best plan: data, tensor and pipeline degrees, microbatch, schedule, ZeRO stage, cuts, and the stages that
/// recompute, or how many of their layers.
///
/// Degrees, microbatch, ZeRO and schedule are enumerated in the order of their bounds (plan_bound), and left out once
/// theirs is no better than `within` times what was found. Of each the cuts: all of them with each choice of
/// recomputation, where these are few thousand; else those whose slowest stage is fastest with recomputation where
/// memory asks for it, by dynamic programming, and of the best such plans those that single moves of a cut or of a
/// stage's recomputation lead to. Every plan is judged by run_plan(). What was not enumerated is then bounded by its
/// schedule too (schedule_bound), as far as a fixed effort goes, where that is asked for. Where stages may have degrees
/// of their own, search_stage_degrees() looks for shorter plans besides, on up to 64 devices: on more, `bound` is of
/// plans with equal degrees.
///
/// Degrees whose devices cannot hold their shares of parameters, gradients and state (LeastMemory) are left out before
/// their layers' costs are asked for. Throws InputError ("plan") where no plan fits: at once where all devices together
/// could not hold these once, with the number that could; "plan" too for costs without layers, samples, devices or
/// functions, and for no schedules; "negative-time" for a layer's pass.
PlanSearchResult search_plans(const PlanCosts& costs, const PlanSearchOptions& options = {});

/// No plan with these degrees, microbatch, ZeRO stage and number of devices in a row (of which `like` is one, whatever
/// its cuts and recomputation) that fits in memory takes less. With m microbatches, p devices in a row, and A the time
/// of one microbatch through all layers, forward and backward:
///
///     (m A + sums + gradients of replicas + update + fill of forward) / p the mean device works and waits that long
///     (m A + sums + fill of both passes) / p                              at first, and before the end
///     A / (1 - (1 - 1/m)^p)                                               stages one behind the other
///     A                                                                   the first microbatch's own path
///     m times the j + 1 shortest of the p j + 1 longest layers, and sums  one device has so many of them, for any j
///     ((m + 1)/2 times the sums of ZeRO 2, 3 m halves of 3) / p           several stages: what the mean device's links
///     do m A - backward of l layers + sum of l + 1 layers' gradients + update one stage whose sums overlap, for any l
///     m sum over layers of b_l D_l / (p M - R)                            memory over time
///
/// A device's stage waits for a microbatch to pass the stages before it, forward first, and then back: p - 1, p - 2,
/// ... 1 times the layers of the shortest passes, from the shortest on, as each stage has one at least (fill; the
/// second where weights' gradients are tasks of their own with A and passes less these, for they can come last). The
/// third for one stage a device: whatever the cuts, m c_q + sum over r < q of c_r is no more than the step for
/// every stage q, c_q its part of A, and these p inequalities add up to it; where weights' gradients are tasks of their
/// own, with A less these. Sums are those of m - 1 microbatches' gradients of weights to those before. What of one
/// microbatch exceeds p devices' memories is computed again: added to A in the order of time per byte, as a fraction.
/// Where one stage's sums overlap, only what they keep of the device counts in the first; but those of the first l + 1
/// layers begin when the last task has left layer l, whatever the buckets, one after the other.
///
/// The last: what layer l keeps of a microbatch, b_l, is held from its forward pass until its gradient of inputs is
/// there (or those of weights too, where one task makes both), D_l later, when the layers behind it have done both
/// passes; all that is held at any time is within p memories M less R, what is there for good. (Little's law:
/// microbatches in flight are those that end in a time, times how long each takes.) Recomputation makes b_l less and A
/// more. So for any share x of the two the step is no less than x times the last and 1 - x times the first, where each
/// layer recomputes what makes the sum least; the best x counts. Kept within what rounding can be off.
Nanoseconds plan_bound(const PlanCosts& costs, const ParallelPlan& like);

}  // namespace trainyard
