#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cluster/device_kinds.hpp"

namespace trainyard {

/// A built-in cluster.
struct ClusterPreset {
  std::string name;     // "dgx1-v100"
  std::string summary;  // one line
  std::string source;   // data sheets of topology, rates and latencies
  bool unit = false;    // "4xNAME" is built in too (kPodPattern)
};

/// Also built in, for any N from 1 to 64 and any device kind or alias: "4xV100". How they are joined follows the kind:
///
///     K80                     two to a board, four boards to a PCIe root (as p2.8xlarge)
///     P100, V100              a DGX-1 cube mesh cut to N, eight to a host; two V100 with a bond of two NVLinks
///     A100 to B300            each with one port to the NVSwitch of its host, eight to a host
///     GB200                   each with one port to the NVSwitch of all
///     any other GPU           each on PCIe to its host (as V100-PCIe-16GB), eight to a host
///     cpu-socket              each with one port to the interconnect of the machine
///     cpu-core                each with one port to the memory of the machine
///
/// Hosts are joined by network cards, one to each GPU with an NVSwitch, otherwise one to each host.
inline constexpr std::string_view kClusterPattern = "NxKIND";
inline constexpr std::string_view kClusterPatternSummary =
    "N devices of one kind (N from 1 to 64), joined as that kind usually is: 4xV100, 8xA100";

/// H hosts of G devices of a kind, for any of the three, on a two-level fabric (cluster/fabric.hpp): "128x8xH100". Each
/// device has a port to its host's switch, as above; from A100 on each has a network card (of B300 two), on a leaf for
/// its rail of 32 hosts; of V100 every two share one, otherwise all of a host share one, on a leaf for 32 hosts. As
/// many spines as cards on a leaf.
inline constexpr std::string_view kFabricPattern = "HxGxKIND";
inline constexpr std::string_view kFabricPatternSummary =
    "H hosts of G devices of one kind on a two-level network: 128x8xH100";

/// N scalable units of a DGX SuperPOD, for any N, as one rail-optimized fabric: "4xsuperpod-h100"; of H100 and B200
/// more than 8 have a third level of switches. So have several pods of "llama3-pod": "8xllama3-pod".
inline constexpr std::string_view kPodPattern = "NxSUPERPOD";
inline constexpr std::string_view kPodPatternSummary =
    "N scalable units of one of the SuperPODs, or pods of Meta's cluster: 4xsuperpod-h100, 8xllama3-pod";

std::span<const ClusterPreset> cluster_presets();

/// The names that `name` could have been meant for: the presets', and NxKIND, HxGxKIND or NxSUPERPOD of every kind and
/// alias with the numbers of `name`.
std::vector<std::string> cluster_names_like(std::string_view name);

/// By preset name or pattern. Throws InputError ("unknown-cluster", with the nearest name; "cluster-size").
ClusterSpec preset_cluster(std::string_view name);

}  // namespace trainyard
