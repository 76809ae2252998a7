#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/schedule_graph.hpp"

namespace trainyard {

struct ScheduleBound {
  Nanoseconds bound;
  std::uint64_t work;  // computational effort: about the numbers processed
};

/// Lower bound on the step of every plan that fits in memory and has the degrees, microbatch, ZeRO stage, schedule and
/// number of devices in the row (at least 2) of `like`, whatever its cuts and recomputation x. Returns 0 for fewer
/// devices and for very large schedules.
///
/// Lagrangian bound. The schedule determines what its tasks and transfers wait for, so the step is the longest path
/// through them. The order of its tasks also determines how many microbatches of each stage a device holds at each
/// instant. The length of a path and the bytes on a device at an instant are sums over layers, each depending on the
/// layer's stage. So for any weights y >= 0 of paths that add up to 1, and any prices u >= 0 of bytes beyond the memory
/// M of a device at an instant,
///
///     step(x)  >=  sum over paths of y length(x)  +  sum over devices and instants of u (bytes(x) - M)
///              >=  the minimum of the right side over all x.
///
/// The minimum is a shortest path over (stage, layer), where each layer takes its cheapest recomputation, in O(stages
/// layers). Good weights and prices come from a linear program over equal, divisible layers. It starts with the paths
/// through all tasks of one device. Each of up to `rounds` rounds adds, for the cuts that the program finds, the
/// longest path that ends on each device. Every round gives a bound; the first that reaches `enough` ends the search.
///
/// If layers are not equal, up to `rounds` more rounds use the cutting-plane method: each maximizes the minimum over
/// all cuts found so far, and then finds new cuts (J. E. Kelley: The Cutting-Plane Method for Solving Convex Programs.
/// J. SIAM 8(4), 1960).
///
/// One set of weights does not suit all cuts, so branch and bound over the cuts follows, least bound first (A. H. Land,
/// A. G. Doig: An Automatic Method of Solving Discrete Programming Problems. Econometrica 28(3), 1960). A part (node of
/// the tree) has a window of layers for each cut. It has two bounds: the longest path through the layers that each
/// stage has for all cuts in the windows, which is exact if every window has one layer; and, for the best weights and
/// prices found, the minimum over cuts in the windows. Branching ends after 100 parts per round, after as much work as
/// all rounds took, or if 200 parts raise the bound by less than 1/1000. Rounds end if ten of them do so.
///
/// If parts of tasks are `apart` and the sums of gradients take longer than a last task, paths end with these sums. A
/// stage's sums begin after the start of the task that makes its last gradients. In schedules that split the backward
/// pass, this is the task for weight gradients if it accumulates those of several microbatches, and otherwise the one
/// for input gradients, since an op may make both. Thus the start of a task is followed
/// by the sums of all stages of its device with gradients still to be made; these share links and run one after the
/// other. The end of the task, less the backward pass of the stage's first layer, is followed by a sum of one byte. The
/// time of a sum is assumed to be concave in its bytes w, so it is at least a + b w, the line through the times of one
/// byte and of all weights. The sums of a device take n a + b W, where n of its stages begin with layers in `own_sums`
/// and W are its bytes.
///
/// Sums of gradients and updates of a share of the weights are assumed to take at least that share of the time for all.
/// Working sets of recomputation are left out. The bound is lowered by the most that rounding can be off.
ScheduleBound schedule_bound(const PlanCosts& costs, const ParallelPlan& like, Nanoseconds enough = kLongestTime,
                             std::size_t rounds = 40, const TaskRules& rules = {});

}  // namespace trainyard
