#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "trainyard/place/learned/learned_policy.hpp"
#include "trainyard/place/learned/train.hpp"

namespace trainyard {

/// A new network of the placer, with initial weights by the seed.
std::unique_ptr<learned::PolicyNetwork<float>> make_policy_network(std::string_view placer, std::size_t devices,
                                                                   std::uint64_t seed);

/// The network with the policy's weights. Throws InputError "unknown-placer", and "policy-weights" if the weights are
/// not those of the placer's network.
std::unique_ptr<learned::PolicyNetwork<float>> network_of(const LearnedPolicy& policy);

}  // namespace trainyard
