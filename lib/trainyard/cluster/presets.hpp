#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// A built-in cluster.
struct ClusterPreset {
  std::string name;     // "dgx1-v100"
  std::string summary;  // one line
  std::string source;   // data sheets and measurements of topology, rates and latencies
  bool unit = false;    // whether "4xNAME" is built in too (kPodPattern)
};

/// Also built in for any N from 1 to 64 and any device kind or alias, as in "4xV100". The topology depends on the kind:
///
///     K80                     two to a board, four boards to a PCIe root (as in p2.8xlarge)
///     P100, V100              a DGX-1 cube mesh cut to N, eight to a host; two V100 with a bond of two NVLinks
///     A100 to B300            each with one port to the NVSwitch of its host, eight to a host
///     GB200                   each with one port to an NVSwitch that joins all
///     any other GPU           each on PCIe to its host (such as V100-PCIe-16GB), eight to a host
///     cpu-socket              each with one port to the interconnect of the machine
///     cpu-core                each with one port to the memory of the machine
///
/// Network cards join the hosts: one per GPU if the hosts have NVSwitches, otherwise one per host.
inline constexpr std::string_view kClusterPattern = "NxKIND";
inline constexpr std::string_view kClusterPatternSummary =
    "N devices of one kind (N from 1 to 64), joined as that kind usually is: 4xV100, 8xA100";

/// H hosts of G devices of any kind on a two-level fabric (cluster/fabric.hpp), as in "128x8xH100". Each device has a
/// port to the switch of its host (V100: the NVSwitch of a DGX-2). From A100 on, each device has its own network card
/// (B300: two) on the leaf of its rail, with 32 hosts to a leaf. Every two V100 share a card, and all devices of other
/// kinds share one per host; their leaves serve 32 hosts. There are as many spines as cards on a leaf.
inline constexpr std::string_view kFabricPattern = "HxGxKIND";
inline constexpr std::string_view kFabricPatternSummary =
    "H hosts of G devices of one kind on a two-level network: 128x8xH100";

/// N scalable units of a DGX SuperPOD, for any N, as one rail-optimized fabric, as in "4xsuperpod-h100". More than 8
/// units of H100 or B200 have a third level of switches, and so do several pods of "llama3-pod", as in "8xllama3-pod".
inline constexpr std::string_view kPodPattern = "NxSUPERPOD";
inline constexpr std::string_view kPodPatternSummary =
    "N scalable units of one of the SuperPODs, or pods of Meta's cluster: 4xsuperpod-h100, 8xllama3-pod";

std::span<const ClusterPreset> cluster_presets();

/// Candidates for what `name` could have meant: the presets' names, and NxKIND, HxGxKIND or NxSUPERPOD for every kind
/// and alias with the numbers of `name`.
std::vector<std::string> cluster_names_like(std::string_view name);

/// The cluster of a preset name or pattern. Throws InputError: "unknown-cluster", with the nearest name, or
/// "cluster-size".
ClusterSpec preset_cluster(std::string_view name);

}  // namespace trainyard
