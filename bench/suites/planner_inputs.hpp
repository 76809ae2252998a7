#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainyard/place/pipedream/layer_profile.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard::bench {

/// Costs of a DAPPLE profile: its layers as a chain that plans cut, on 16 V100 with 16 GB in two hosts of 8, with
/// NVLink at 130 GB/s within a host and one network card of 25 Gbit/s per host. Layers are in the lexicographically
/// first topological order; times and sizes are proportional to the samples.
///
///     transfer over a cut outputs of earlier layers that later layers read, each tensor once; replicas whose neighbour
///                         is on the other host share a network card
///     gradient all-reduce rings within the hosts, then between them
///     memory              weights, gradients and Adam's two moments, and the layers' outputs
///
/// `profiled` is the number of samples in the profile. The update takes no time.
PlanCosts dapple_costs(const LayerProfile& profile, std::size_t profiled, std::size_t batch);

/// Position in that chain of the layer with this name or type. Throws InputError ("no-layer").
std::size_t place_of(const LayerProfile& profile, const std::string& layer);

/// Costs of a Piper input file: its nodes as a chain, with one sample per microbatch. At t ranks a node has, without
/// and with recomputation ("vanilla", "activation recomp"), times p and p', activations A and A', and parameters w:
///
///     forward p' - p, backward 2 p - p'; saved A; weights w; no optimizer state
///
/// A tensor crosses a cut once, whereas Piper counts it for each of its readers.
struct PiperInput {
  PlanCosts costs;
  Nanoseconds least;  // work of a sample: the least t p over the degrees, summed over the nodes
};
PiperInput read_piper_input(const std::filesystem::path& path);

/// A network of Aceso's profile: files `gpt_1_3B_...` in `profiler/profiled-time-eurosys/`, measured on hosts of eight
/// V100 with 32 GB, or in `profiler/profiled-time-miniset/`, measured on one host of four.
struct AcesoNetwork {
  std::string folder, family, size;  // "gpt", "t5", "resnet"
  std::size_t repeats;               // number of transformer layers, in the encoder and in the decoder
  std::size_t devices, batch;
};

/// The network's chain of layers in Aceso's cost model, for microbatches of `microbatch` samples per replica or that
/// number halved repeatedly; other sizes take hours. `profile` maps names of archive members to their contents.
///
///     layer               sum of its ops; attention and MLP are separate layers. Only GPT has tensor ranks: the first
///                         product of a layer is column-parallel, the second row-parallel, with an all-reduce of its
///                         output in each pass from the profile's tables
///     memory              28,000 MB (the limit of Aceso's search) less the largest reserve of an op in each pass;
///                         16 bytes per parameter, as for float32
///     transfer            the profile's bandwidths within a host and between hosts
///     gradients, update   no time, as in Aceso's model
PlanCosts aceso_costs(const std::map<std::string, std::string>& profile, const AcesoNetwork& network,
                      std::size_t microbatch);

/// A plan by Sailor with its measured step (`simulations/validation/`).
struct SailorPlan {
  std::string name;  // "N16_D4": nodes and replicas
  std::size_t devices = 0, batch = 0;
  ParallelPlan plan;
  double seconds = 0;
};

/// OPT-350M on GH200 in nodes of 4 in Sailor's cost model. `artifact` maps names of archive members to their contents.
///
///     layer               forward and backward times as profiled for microbatch and ranks, collectives among the ranks
///                         included; sizes that were not profiled do not fit in memory
///     memory              96 GB, from Sailor's configuration; a layer takes the total profiled for Metis, of which
///                         weights, gradients and Adam's moments are four times the parameters
///     transfer            the layer's activations at the highest bandwidth measured between two GPUs
///     gradient all-reduce a ring at the highest bandwidth of a node, which the rings of the ranks share
///     update              proportional to the bytes of weights, at the profiled rate of a layer on one rank
PlanCosts sailor_costs(const std::map<std::string, std::string>& artifact, std::size_t devices, std::size_t batch);

/// The plans with microbatches of 8 samples, which were measured on the profile's set-up; others name another set-up.
std::vector<SailorPlan> sailor_plans(const std::map<std::string, std::string>& artifact);

}  // namespace trainyard::bench
