#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// Earliest time of a weight gradient, from the start of its microbatch's backward pass.
struct LeastGradient {
  Nanoseconds ahead;  // ops that a device with the whole pass runs before it, plus its own op
  Nanoseconds along;  // the chain of blocks up to it, with collectives of tensor ranks, plus its own op
  Bytes bytes;
};

/// Lower bounds on a layer's work under any schedule of a plan, on each rank and for one microbatch.
struct LeastWork {
  Nanoseconds forward, backward;    // time of ops, weight gradients included
  Nanoseconds again, scores_again;  // time of ops that recomputation repeats: the whole layer, or its scores alone
  Nanoseconds links, links_back;    // link time of collectives among tensor ranks; the part in the backward pass
  Nanoseconds ahead_of_links = {};  // ops of the backward pass that a device runs before its first collective there
  bool on_chain = true;             // its passes wait for those of the neighbouring layers
  /// Times if the two gradients are separate tasks; LayerCost has the times for one task that makes both.
  Nanoseconds input_gradient = {}, weight_gradient = {}, accumulation = {};
  bool additions_take_time = true;  // every addition of a weight gradient to earlier microbatches' takes time
  bool has_own_sum = false;         // a stage that begins with this layer sums its gradients separately
  std::vector<LeastGradient> gradients = {};
};

/// Lower bounds on the costs of any schedule of a plan; PlanCosts alone holds estimates. In `plan`, the passes of
/// PlanCosts::layer count only ops that follow each other whatever the cuts: of a layer's forward pass, those behind
/// the last op of the layer before it on the longest path, up to its own last op on that path (plan_chain.hpp); the
/// backward pass likewise. `weight_gradient` and `accumulation` are a device's work besides these passes. If ranks have
/// collectives, passes take at least the collectives' time in between. Sums of gradients are link times; updates,
/// additions and launches are device times.
struct LeastCosts {
  PlanCosts plan;
  std::function<LeastWork(std::size_t layer, std::size_t samples, LayerDegree tensor)> work;
  /// Bytes of weights that no op of the backward pass reads. Nothing if a loss can be ready before all weights are.
  std::optional<Bytes> read_forward_alone = {};
};

/// Lower bound on the simulated step of every plan that search_plans() considers with these options. It is the least of
/// the bounds of all degrees, microbatches, ZeRO stages and schedules; each is raised only until it is `enough`.
/// Returns 0 if time runs out first.
///
/// Let m be the microbatches, p the devices in the row, C the time of all layers' ops in both passes, F and B the times
/// of their forward and backward chains, and W the time of weight gradients. Link time is the time that collectives of
/// ranks occupy a link, and the sums are the all-reduces of gradients. A plan's bound is the largest of these:
///
///     p = 1   - m C + update + additions
///             - F + B; or the chain up to the last gradient, and then the sum of one byte
///             - link time, plus the sums if they share the link
///             - last loss (at least F and all forward work) + link time of one backward pass + sums; with m = 1 also
///               last loss + all backward ops + update
///             - all forward work + link time of all backward passes + sums - (m - 1) s. Here s is the most that the
///               link time of a backward pass so far can exceed the ops ahead of it: in all passes but the last, that
///               much may come before the last loss
///             - for each gradient: device work and chain until it can exist, then the sums of all gradients that
///               cannot exist earlier; and the sums of all gradients as one after the last gradient, as two, or three
///             - ZeRO 3: the last loss waits for m gathers of all weights; links carry m times what each pass reads,
///               and the sums. ZeRO 2: links carry (m + 1)/2 times the sums
///     p > 1   - m C / p
///             - the bounds of plan_bound() for tasks of F, B and W, where input gradients leave the device before
///               weight gradients are made: the mean device with its waits at the beginning and end (with one stage
///               per device also all but its last backward task, then the sums of its gradients), the layers of the
///               fullest device, and stages one behind the other:
///
///                   (m A + (m - 1) (1 - 1/m)^(p-1) W) / (m (1 - (1 - 1/m)^p))     A = F + B, one stage per device
///
///               since m A_q + (m - 1) W_q + sum over r < q of A_r <= step for each stage q
///             - ZeRO 2 and 3: link time of the mean device, (m + 1)/2 times the sums, or 2 m halves that gather or
///               scatter
///     any p   - the sums of experts' gradients among the replicas that hold the same ones, by themselves, as often
///
/// Two more bounds follow: schedule_bound() with parts apart, for the candidates with the least bounds first, and
/// bound_stage_degrees(). The former, the tightened form of the latter, and the term with W above apply only if all
/// layers are on the chain. With p > 1 a device runs its tasks strictly in turn, so the collectives of tensor ranks
/// between the ops of a task add to F and B (plan_chain.hpp). C, and F + B with p = 1, include the least recomputation
/// with which one microbatch's activations fit in all devices of the row. Memory counts parameters and state, and
/// gradients only with several microbatches.
Nanoseconds least_step(const LeastCosts& costs, const PlanSearchOptions& options, Nanoseconds enough);

}  // namespace trainyard
