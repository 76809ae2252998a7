#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/schedule_graph.hpp"

namespace trainyard {

struct ScheduleBound {
  Nanoseconds bound;
  std::uint64_t work;  // numbers gone through, roughly
};

/// No plan with the degrees, microbatch, ZeRO stage, schedule and devices in a row, two at least, of `like` that fits
/// in memory takes less, whatever its cuts and recomputation x. The schedule says what its tasks and transfers wait
/// for, so the step is the longest path through them; and in the order of its tasks, how many microbatches of each
/// stage a device holds. What a path takes, and what a device holds at an instant, are sums over layers of what each
/// adds in its stage. So for weights y >= 0 of paths, which add up to 1, and prices u >= 0 of bytes beyond the memory M
/// of a device at an instant, whatever they are,
///
///     step(x)  >=  sum over paths of y length(x)  +  sum over devices and instants of u (bytes(x) - M)
///              >=  the least of the right side over all x:
///
/// a shortest way through (stage, layer), each layer with the recomputation that is cheapest for it, in O(stages
/// layers). Good weights and prices are those of a linear program of layers that are all the same and may be divided:
/// it chooses among the paths through all tasks of one device, and in each of so many rounds learns the longest of
/// those that end on each device for the cuts that it finds. Every round's least is a bound; the first that is `enough`
/// ends it.
///
/// Where layers are not alike, as many rounds follow that choose those for which the least over all cuts found so far
/// is largest, and find others (J. E. Kelley: The Cutting-Plane Method for Solving Convex Programs. J. SIAM 8(4),
/// 1960).
///
/// The weights of one row do not suit all cuts. So the cuts are branched on, the least bound first (A. H. Land, A. G.
/// Doig: An Automatic Method of Solving Discrete Programming Problems. Econometrica 28(3), 1960): a part of them has a
/// window of layers for each cut. It takes no less than the longest path through the layers that its stages have
/// wherever the cuts are, which is that of the cuts where each window has one; nor, for the best weights and prices
/// found, than the least over its windows. This is given up after 100 parts a round, as much work as all rounds, or 200
/// parts that raise the least by no thousandth; and so are ten rounds that do not.
///
/// Where parts of tasks are `apart`, and sums of gradients take longer than a last task, paths end with these: those of
/// a stage begin no sooner than the task that makes its last gradients; so behind this one's start come, one after the
/// other on the same links, the sums of all stages of its device of which that is yet to be; and behind its end, or no
/// sooner than the backward pass of the first layer before that, a sum of one byte. A sum's time is assumed to
/// be a concave function of its bytes w, so it is no less than a + b w, the line through its times of one byte and of
/// all weights: those of a device together take n a + b W, where n of its stages begin with layers of `own_sums`.
///
/// Sums of gradients and updates of a share of the weights are assumed to take that share of the time of all, or more.
/// Working sets of recomputation are left out. Kept within what rounding can be off.
ScheduleBound schedule_bound(const PlanCosts& costs, const ParallelPlan& like, Nanoseconds enough = kLongestTime,
                             std::size_t rounds = 40, const TaskRules& rules = {});

}  // namespace trainyard
