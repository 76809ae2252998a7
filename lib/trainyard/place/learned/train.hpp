#pragma once

#include <functional>
#include <span>

#include "trainyard/place/learned/policy_network.hpp"
#include "trainyard/place/learned/train_options.hpp"

namespace trainyard::learned {

/// REINFORCE (Williams, 1992): in each update, episodes run under the policy, and its parameters go up
///
///     sum over the steps t of  (G_t - b_t) grad log p(a_t) + bonus grad entropy(p_t)
///
/// where G_t is the return from step t on, minus the cost over the start's cost, or with intermediate rewards the costs
/// saved by the steps from t on, later ones discounted (of networks whose decisions each place or move a group); and
/// b_t the mean of G_t over this task's episodes in the update and some before it, those from the start and those from
/// the best placement seen apart. G_t - b_t are divided by their standard deviation over the same episodes of the
/// update, so that no task outweighs others. Rates and bonuses fall in equal steps. Gradients are summed in the order
/// of the episodes. At the end the policy has the parameters whose last 5 updates (with more tasks, as many) had the
/// least mean cost, and what it then decides without chance on each task counts as a placement seen.
///
/// Before, if asked for, it imitates a teacher: its parameters go up the sum of grad log p(a_t) of the teacher's
/// actions a_t, in every second episode where the teacher's choices lead, in the others where the policy's own do. The
/// placement to which the teacher leads counts as seen.
TrainResult train(PolicyNetwork<float>& policy, std::span<const PlacementTask> tasks, const TrainOptions& options);

/// The placement that a policy makes without chance and without a search: passes from the start on, each from where the
/// last one ended, until one changes nothing, at most kPasses; then the best of the start and of what passes ended
/// with. One pass of a network that does not improve a start. `better` is told the start, and each pass that ends with
/// less cost than all before.
inline constexpr int kPasses = 4;
Devices decide_in_passes(const PolicyNetwork<float>& policy, const PlacementTask& task, PlacementCosts& evaluator,
                         std::span<const std::uint32_t> order = {},
                         const std::function<void(const Devices&, double cost)>& better = {});

}  // namespace trainyard::learned
