#include "trainyard/plan/least_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard {
namespace {

/// Upper limit on the rounding error of a layer's share of weights, gradients and state, in bytes.
constexpr double kRoundedBytes = 4;

}  // namespace

/// Separates dense weights from experts by comparing two tables: a rank that holds everything, and a rank that holds
/// its share of the experts.
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

/// Lower bound on the bytes of the fullest device. The p t devices of a replica hold the dense weights once (the
/// replica's ZeRO share of weights, gradients and state) and a share of the experts. However stages and ranks divide
/// these, the mean device holds 1/(p t); padding only adds. Gradients of the only microbatch may be freed before all
/// are made: by updates on several devices of one stage, and with ZeRO by the reduction.
double LeastMemory::of_device(const ParallelPlan& plan) const {
  const Shards shards = plan.shards();
  const bool gradients = !gradients_go_ || costs_.batch / plan.data > plan.microbatch || plan.devices() == 1 ||
                         (plan.stages() > 1 && shards.state == 1);
  const double own = experts_.weights / static_cast<double>(plan.experts);
  const double state = dense_.state / static_cast<double>(shards.state) +
                       experts_.state / static_cast<double>(plan.experts * shards.expert_state);
  const double all = shards.held(dense_.weights, own, gradients) + state;
  return all / static_cast<double>(plan.devices_in_row() * plan.tensor);
}

/// Whether `bytes` exceed a device's memory by more than rounding of the layers' shares can explain.
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
    help = fmt::format("they need {}, and there {} {} of {}: use {} or more", bytes(all),
                       costs_.devices > 1 ? "are" : "is", counted(costs_.devices, "device"),
                       format_bytes(*costs_.memory), std::ceil(all / static_cast<double>(costs_.memory->count)));
  else if (nearest_ && !any_holds_)
    help = fmt::format("even {} needs at least {} per device, and a device has {}", describe(*nearest_),
                       bytes(of_device(*nearest_)), format_bytes(*costs_.memory));
  std::string message = "weights, gradients and optimizer state alone exceed the memory of the devices";
  if (any_holds_)
    message =
        "weights, gradients, optimizer state and the activations of one microbatch exceed the memory of the devices";
  else if (gradients_go_)
    message = "weights, optimizer state and the gradients needed at one time alone exceed the memory of the devices";
  else if (keeps_gradients_)
    message = "weights, optimizer state and all gradients, which a plan on one device keeps, alone exceed its memory";
  if (keeps_gradients_) help += "; or use the placer single, which does not keep all gradients";
  throw InputError({.code = "plan", .message = "no plan fits: " + message, .help = std::move(help)});
}

}  // namespace trainyard
