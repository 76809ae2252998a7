#include "trainyard/plan/least_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard {
namespace {

/// Bytes by which a layer's share of weights, gradients and state is rounded, at most.
constexpr double kRoundedBytes = 4;

}  // namespace

/// Experts apart: from the table of a rank that holds all, and of one that has its share of the experts.
LeastMemory::LeastMemory(const PlanCosts& costs, LayerTables& tables) : costs_(costs) {
  if (std::ranges::find(costs.layer_degrees, LayerDegree{1}) == costs.layer_degrees.end()) return;
  for (const LayerCost& layer : tables.of(1, {1})) {
    if (layer.backward_memory) (costs.devices > 1 ? gradients_go_ : keeps_gradients_) = true;
    dense_.weights += static_cast<double>(layer.weights.count);
    dense_.state += static_cast<double>(layer.state.count);
  }
  const auto share = std::ranges::find_if(
      costs.layer_degrees, [](const LayerDegree& each) { return each.experts > 1 && each.ranks * each.context == 1; });
  if (share == costs.layer_degrees.end()) return;
  const auto e = static_cast<double>(share->experts);
  for (const LayerCost& layer : tables.of(1, *share)) {
    experts_.weights += e * static_cast<double>(layer.expert_weights.count);
    experts_.state += e * static_cast<double>(layer.expert_state.count);
  }
  dense_.weights -= experts_.weights;
  dense_.state -= experts_.state;
}

/// Bytes of the fullest device. A replica's p t devices hold what is not of experts once, of its state one of as many
/// shares as there are replicas with ZeRO, and a share of the experts; however stages and ranks divide that, the mean
/// device holds 1/(p t) of it. Padding only adds. The gradients of the only microbatch may go while others are yet to
/// be made: to updates on several devices of one stage, with ZeRO to where their sums are.
double LeastMemory::of_device(const ParallelPlan& plan) const {
  const Shards shards = plan.shards();
  const bool gradients = !gradients_go_ || costs_.batch / plan.data > plan.microbatch || plan.devices() == 1 ||
                         (plan.stages() > 1 && shards.state == 1);
  const double dense = shards.copies(gradients) * dense_.weights + dense_.state / static_cast<double>(shards.state);
  const double all = dense + experts_.held(gradients) / static_cast<double>(plan.experts);
  return all / static_cast<double>(plan.devices_in_row() * plan.tensor);
}

/// Whether a device cannot hold so much, whatever each layer's share was rounded by.
bool LeastMemory::is_beyond(double bytes) const {
  return costs_.memory && bytes * (1 - 1e-6) > static_cast<double>(costs_.memory->count) +
                                                   kRoundedBytes * static_cast<double>(costs_.layers);
}

bool LeastMemory::may_hold(const ParallelPlan& plan) {
  if (!is_beyond(of_device(plan))) return any_holds_ = true;
  if (!nearest_ || of_device(plan) < of_device(*nearest_)) nearest_ = plan;
  return false;
}

void LeastMemory::refuse() const {
  std::string help = "give more devices, or devices with more memory";
  const auto bytes = [](double count) { return format_bytes(Bytes{static_cast<std::int64_t>(count)}); };
  if (const double all = once(!gradients_go_); !may_fit() && *costs_.memory > Bytes{0})
    help = fmt::format("they are {}, and {} device{} of {} {} at hand: {} or more could hold them", bytes(all),
                       costs_.devices, costs_.devices > 1 ? "s" : "", format_bytes(*costs_.memory),
                       costs_.devices > 1 ? "are" : "is", std::ceil(all / static_cast<double>(costs_.memory->count)));
  else if (nearest_ && !any_holds_)
    help = fmt::format("a device has {}, and needs {} at least, by {}", format_bytes(*costs_.memory),
                       bytes(of_device(*nearest_)), describe(*nearest_));
  std::string message = "weights, gradients and optimizer state alone exceed the memories";
  if (any_holds_)
    message = "what is kept of a microbatch exceeds the memories, with weights, gradients and optimizer state";
  else if (gradients_go_)
    message = "weights, optimizer state, and gradients that have to be there at once, alone exceed the memories";
  else if (keeps_gradients_)
    message = "the weights, gradients and optimizer state that a plan on one device keeps alone exceed its memory";
  if (keeps_gradients_) help += "; the placer single does not keep all gradients";
  throw InputError({.code = "plan", .message = "no plan fits: " + message, .help = std::move(help)});
}

}  // namespace trainyard
