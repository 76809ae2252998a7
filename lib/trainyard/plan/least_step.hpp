#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// A gradient of weights, when its microbatch's backward pass has begun: behind what it comes.
struct LeastGradient {
  Nanoseconds ahead;  // ops that a device that has all of the pass does before, its own included
  Nanoseconds along;  // the chain of blocks, with collectives of tensor ranks, and its own op
  Bytes bytes;
};

/// What any schedule of a plan does of a layer, on each rank, for one microbatch.
struct LeastWork {
  Nanoseconds forward, backward;    // of ops, gradients of weights included
  Nanoseconds again, scores_again;  // of ops that recomputation repeats: of the layer, or of its scores alone
  Nanoseconds links, links_back;    // that collectives of tensor ranks hold the same links; of these, the backward pass
  Nanoseconds ahead_of_links = {};  // ops that a device does of the backward pass before any of the latter
  bool on_chain = true;             // its passes wait for those of the layers before and behind it
  /// LayerCost has what a task that makes both gradients takes; this is what either takes in a task of its own.
  Nanoseconds input_gradient = {}, weight_gradient = {}, accumulation = {};
  bool additions_take_time = true;  // each that adds a gradient of weights to those of earlier microbatches
  bool has_own_sum = false;         // a stage that begins here adds up its gradients in sums of its own
  std::vector<LeastGradient> gradients = {};
};

/// Costs that no schedule of a plan is below, where PlanCosts says what is likely. Of PlanCosts::layer passes are what
/// comes behind each other whatever the cuts: a forward pass what is behind the chosen op of the layer before, and
/// ahead of the layer's own; and likewise back. One device does these passes with what `weight_gradient` and
/// `accumulation` are besides, and where ranks have collectives, no less than these take in between. Sums of gradients
/// are what links need; updates, additions and launches what the device does.
struct LeastCosts {
  PlanCosts plan;
  std::function<LeastWork(std::size_t layer, std::size_t samples, LayerDegree tensor)> work;
  /// Bytes of weights that no op of the backward pass reads; nothing where a loss may be there before all weights are.
  std::optional<Bytes> read_forward_alone = {};
};

/// No plan that search_plans() looks at with these options takes less, as simulated: the least of the bounds of all
/// degrees, microbatches, ZeRO stages and schedules, each looked for until it is `enough`. With m microbatches on p
/// devices in a row, of layers' ops C in all passes, F and B of chains forward and back, and W of weights' gradients:
///
///     one device in the row       m C + update + additions; F + B, or until the last gradient, and then the sum of one
///                                 byte; what ranks hold a link, and sums of gradients too where they share it; behind
///                                 the last microbatch's loss, no sooner than F and all forward work, of one backward
///                                 pass what ranks hold, and the sums, or all ops where there is but one; or all
///                                 forward work, what ranks hold in all backward passes, and the sums, less, of all
///                                 passes but the last one, by how much at most what ranks hold of the first blocks
///                                 back exceeds the ops ahead of it, which may be done before the last loss; and for
///                                 any gradient: the device's work and the chain until that may be there, and the sums
///                                 of those that are no sooner; and all in one sum behind the last one, in two, or in
///                                 three; with ZeRO 3 the last loss no sooner than m times all weights are gathered,
///                                 and on links m times what either pass reads, and the sums; with ZeRO 2 (m + 1)/2
///                                 times these
///     several                     m C / p; and as in plan_bound(), of tasks that take F, B and W, gradients of inputs
///                                 leaving the device before those of weights are made: the mean device, with what it
///                                 waits at first, and before the end; or with one stage a device all but its last
///                                 backward task, and the sums of its gradients; the layers that the fullest device
///                                 has; stages one behind the other; with ZeRO 2 and 3 the mean device's links: (m +
///                                 1)/2 times the sums, and 2 m times the halves that gather or scatter
///
///         (m A + (m - 1) (1 - 1/m)^(p-1) W) / (m (1 - (1 - 1/m)^p))       A = F + B, one stage a device
///
/// where m A_q + (m - 1) W_q + sum over r < q of A_r <= the step, for each stage q; then schedule_bound() with parts
/// apart, the least bounds first, and bound_stage_degrees(), both of these and W where all layers are on the chain. A
/// device of several runs its tasks strictly in turn, so that collectives of tensor ranks between the ops of a task add
/// to F and B (plan_chain.hpp). C and one device's F + B have what is recomputed at least, so that one microbatch's
/// activations fit in all devices of the row. Parameters and state alone are taken to be held of one microbatch, with
/// more of them gradients too. 0: not known in time.
Nanoseconds least_step(const LeastCosts& costs, const PlanSearchOptions& options, Nanoseconds enough);

}  // namespace trainyard
