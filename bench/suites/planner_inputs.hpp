#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
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

/// A network of Aceso's profile: files `gpt_1_3B_...` in `profiler/profiled-time-eurosys/`, measured in hosts of eight
/// V100 with 32 GB, or `-miniset/`, in one of four.
struct AcesoNetwork {
  std::string folder, family, size;  // "gpt", "t5", "resnet"
  std::size_t repeats;               // of a transformer's layer, of encoder and decoder each
  std::size_t devices, batch;
};

/// Its chain of layers in Aceso's cost model, for microbatches of so many samples a replica, or that halved again and
/// again (others take hours); the archive's members by name.
///
///     a layer             its ops one by one, attention and MLP apart; a GPT may have ranks: the first product of a
///                         half by columns, the second by rows, and an all-reduce of its output each way, of the
///                         profile's tables
///     memory              28,000 MB (its search's limit) less what one op in each pass reserves; 16 bytes a parameter,
///                         as of float32
///     transfer            the profile's bandwidths within a host and between hosts
///     gradients, update   no time, as in its model
PlanCosts aceso_costs(const std::map<std::string, std::string>& profile, const AcesoNetwork& network,
                      std::size_t microbatch);

/// A plan of Sailor's and its measured step (`simulations/validation/`).
struct SailorPlan {
  std::string name;  // "N16_D4": nodes and replicas
  std::size_t devices = 0, batch = 0;
  ParallelPlan plan;
  double seconds = 0;
};

/// OPT-350M on GH200 in nodes of 4 in Sailor's cost model (the members of its artifact by name):
///
///     a layer             forward, backward and update as profiled for the microbatch and the ranks, whose collectives
///                         are part of them; what was not profiled does not fit
///     memory              96 GB as its configuration has it; a layer's total as profiled for Metis, of which weights,
///                         gradients and Adam's moments are four times the parameters
///     transfer            the layer's activations at the highest bandwidth measured between two GPUs
///     sum of gradients    a ring at the highest bandwidth of a node, which the rings of the ranks share
///     update              the time of a layer at one rank, by bytes of weights
PlanCosts sailor_costs(const std::map<std::string, std::string>& artifact, std::size_t devices, std::size_t batch);

/// Those with microbatches of 8 samples, which are measured as the profile was (others name another set-up).
std::vector<SailorPlan> sailor_plans(const std::map<std::string, std::string>& artifact);

}  // namespace trainyard::bench
