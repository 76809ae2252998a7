#pragma once

#include <functional>
#include <span>

#include "trainyard/place/learned/policy_network.hpp"
#include "trainyard/place/learned/train_options.hpp"

namespace trainyard::learned {

/// REINFORCE (Williams, 1992). In each update, episodes run under the policy, and its parameters ascend
///
///     sum over the steps t of  (G_t - b_t) grad log p(a_t) + bonus grad entropy(p_t)
///
/// G_t is the return from step t on: minus the cost over the start's cost, or with intermediate rewards the costs saved
/// by the steps from t on, with later ones discounted (for networks whose decisions each place or move a group). The
/// baseline b_t is the mean of G_t over this task's episodes in the update and in some updates before. Episodes from
/// the start and from the best placement seen have separate baselines. G_t - b_t is divided by its standard deviation
/// over the same kind of episodes of the update, so that no task outweighs others. Learning rates and bonuses decrease
/// linearly. Gradients are summed in the order of the episodes. At the end the policy has the parameters whose last 5
/// updates (as many as tasks, if these are more) had the least mean cost. The placement that it then decides
/// deterministically on each task counts as seen, too.
///
/// Before that, if requested, the policy imitates a teacher: its parameters ascend the sum of grad log p(a_t) of the
/// teacher's actions a_t. In every second episode the teacher's choices are carried out, in the others the policy's
/// own. The placement to which the teacher leads counts as seen.
TrainResult train(PolicyNetwork<float>& policy, std::span<const PlacementTask> tasks, const TrainOptions& options);

/// The placement that a policy makes deterministically and without a search. Passes run from the start on, each from
/// the result of the one before, until one changes nothing, but at most kPasses; a network that does not improve a
/// start runs one. Returns the best of the start and the results of the passes. `better` is called with the start, and
/// with each result that costs less than all before.
inline constexpr int kPasses = 4;
Devices decide_in_passes(const PolicyNetwork<float>& policy, const PlacementTask& task, PlacementCosts& evaluator,
                         std::span<const std::uint32_t> order = {},
                         const std::function<void(const Devices&, double cost)>& better = {});

}  // namespace trainyard::learned
