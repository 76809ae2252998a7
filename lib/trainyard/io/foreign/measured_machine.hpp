#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/io/foreign/gpu_topology.hpp"

namespace trainyard {

/// Bandwidths of copies in GB/s (10^9 bytes/s); nothing for pairs without a measurement.
using RateMatrix = std::vector<std::vector<std::optional<double>>>;

/// Whether a bandwidth in GB/s, or a latency in us, is plausible: 0.1 to 100,000. Fair links support this range of
/// bandwidths (kWidestFairRange).
constexpr bool is_measured_rate(double value) { return value >= 0.1 && value <= 1e5; }

/// Measurements of one machine's GPUs in GB/s. Every list and matrix may be empty if it was not measured.
struct MeasuredMachine {
  std::vector<std::string> gpus;       // names given by the tool, one per GPU
  std::vector<std::string> addresses;  // PCI addresses such as "0000:8f:00.0", lower case
  std::size_t count = 0;
  std::vector<double> to_host, from_host;            // of each GPU while the others are idle
  std::vector<double> all_to_host, host_to_all;      // of each GPU while all copy at once
  std::vector<double> to_host_both, from_host_both;  // of each GPU while its other direction is busy
  RateMatrix peers;                // from row to column, one copy at a time; nothing for pairs without peer access
  RateMatrix through_host;         // from row to column, without peer access
  RateMatrix peers_both;           // sum of both directions of a pair at once
  RateMatrix latency_us;           // of a few bytes from row to column
  std::vector<double> one_to_all;  // of each GPU while it writes to all others
};

/// A machine as a cluster, with the errors of its bandwidths against the measurements.
struct BandwidthReport {
  /// How GPUs reach each other.
  enum class Peers : std::uint8_t {
    none,   // one GPU, or no peer access: copies go up to the host, then down
    pcie,   // peer to peer over PCIe
    links,  // NVLinks between pairs
    ports,  // NVLinks to a switch, one port per GPU
  };

  // Devices gpu0, gpu1, ...; each ordered pair has its measured bandwidth (ClusterSpec::measured).
  ClusterSpec cluster;
  Peers peers = Peers::none;
  std::vector<BytesPerSecond> to_host, from_host;  // of each GPU alone; empty if not measured
  /// Groups of GPUs that share their path to the host: their copies take turns when all copy at once.
  std::vector<std::vector<std::size_t>> buses;
  /// Largest relative error of a GPU's bandwidth to or from the host in the cluster, when all GPUs copy at once; 0 if
  /// not measured.
  double concurrent_error = 0;
  /// Largest relative error of a pair's bandwidth in the cluster, and of the bandwidth with which one GPU writes to all
  /// others; the latter is empty if not measured.
  double pair_error = 0;
  std::optional<double> one_to_all_error;
  /// Median ratio of the bandwidth of both directions at once to the sum of each alone, for paths to the host and for
  /// pairs.
  std::optional<double> host_both, peers_both;
  std::vector<std::string> notes;  // facts that the file lacks or the cluster cannot express
};

/// The cluster of a measured machine. GPUs are of `kind` (device_kinds.hpp). If it is empty, they are of the kinds that
/// the machine or the topology names, or of none.
///
///     pairs     Each ordered pair has its own bandwidth. GPUs are joined by NVLink if the largest bandwidth exceeds
///               60 GB/s, or if all are those of one or two links of NVLink 2 (24.2 GB/s each); otherwise by PCIe.
///               The NVLinks lead to a switch if there are more than two GPUs, all pairs have peer access, and one
///               GPU writes to all others less than 1.25 times as fast as to one (with links between pairs, the
///               bandwidths add up). If that was not measured, they lead to a switch if the topology has more than 18
///               links per GPU; without link counts, if all pairs are within 10 % of a median above 150 GB/s.
///     host      Each GPU has a link to the host. Buses are the topology's switches whose GPUs slow each other down
///               at least 1.08 times. Without switches they are runs of g neighbours in one package, each slowed
///               down g times (within 0.25).
///     duplex    Half if both directions at once reach less than 3/4 of the sum of each alone.
///     latency   As measured, or that of the built-in clusters.
///
/// Throws InputError: "unknown-kind"; "topology" if the topology is that of other GPUs.
BandwidthReport machine_cluster(const MeasuredMachine& machine, const std::string& kind = {},
                                const GpuTopology* topology = nullptr);

/// The device kind for a GPU's name in the driver or the PCI database: V100-SXM2-16GB for "Tesla V100-SXM2-16GB" and
/// for "GV100GL [Tesla V100 SXM2 16GB]". Null if no kind matches.
const struct DeviceKind* kind_of_gpu(std::string_view name);

}  // namespace trainyard
