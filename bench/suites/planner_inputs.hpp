#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "trainyard/place/pipedream/layer_profile.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard::bench {

/// A profile's layers as the chain that plans cut, on 16 V100 with 16 GB in two hosts of 8: NVLink at 130 GB/s within
/// a host, one network card of 25 Gbit/s each. Layers stand in the first topological order of the file's; times and
/// sizes are in proportion to the samples.
///
///     sent over a cut     what layers before it hand to layers after it, each tensor once; of the replicas those whose
///                         neighbour is on the other host share its card
///     sum of gradients    rings within the hosts, then between them
///     memory              weights, gradients and Adam's two moments, and what layers hand on
///
/// `profiled`: the samples of the profile. The update takes no time here.
PlanCosts dapple_costs(const LayerProfile& profile, std::size_t profiled, std::size_t batch);

/// Where the layer of this name or type stands in that chain. Throws InputError ("no-layer").
std::size_t place_of(const LayerProfile& profile, const std::string& layer);

/// A file of Piper's: its nodes as a chain, one sample a microbatch. Of a node at t ranks, without and with
/// recomputation ("vanilla", "activation recomp"), time p and p', held A and A', parameters w:
///
///     forward p' - p, backward 2 p - p'; saved A; weights w; no optimizer state
///
/// A tensor crosses a cut once (Piper counts it for each of its readers).
struct PiperInput {
  PlanCosts costs;
  Nanoseconds least;  // of a sample on one device: the least t p, summed over the nodes
};
PiperInput read_piper_input(const std::filesystem::path& path);

}  // namespace trainyard::bench
