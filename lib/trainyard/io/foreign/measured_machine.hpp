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

/// GB/s (1e9) of copies; nothing where there was none.
using RateMatrix = std::vector<std::vector<std::optional<double>>>;

/// Whether a tool may have measured this bandwidth in GB/s, or this latency in us: 0.1 to 100,000, a range of links
/// that can share fairly (kWidestFairRange).
constexpr bool is_measured_rate(double value) { return value >= 0.1 && value <= 1e5; }

/// What tools measured of one machine's GPUs, in GB/s.
struct MeasuredMachine {
  std::vector<std::string> gpus;       // as the tool names them, one each; or empty
  std::vector<std::string> addresses;  // PCI, as "0000:8f:00.0" (lower case); or empty
  std::size_t count = 0;
  std::vector<double> to_host, from_host;            // of each GPU alone; or empty
  std::vector<double> all_to_host, host_to_all;      // of each while all copy at once; or empty
  std::vector<double> to_host_both, from_host_both;  // of each while the other direction is busy too; or empty
  RateMatrix peers;         // from row to column: one copy alone; nothing where there is no peer access; or empty
  RateMatrix through_host;  // the same without peer access; or empty
  RateMatrix peers_both;    // both directions of a pair at once, the sum; or empty
  RateMatrix latency_us;    // of a few bytes from row to column; or empty
  std::vector<double> one_to_all;  // of each GPU while one writes to all others; or empty
};

/// A machine as a cluster, and how well it says what was measured.
struct BandwidthReport {
  /// How GPUs reach each other.
  enum class Peers : std::uint8_t {
    none,   // one GPU, or no peer access: through the host, a copy up and then one down
    pcie,   // peer to peer over PCIe
    links,  // NVLinks of their own
    ports,  // NVLinks to a switch, a port each
  };

  ClusterSpec cluster;  // gpu0, gpu1, ...; every ordered pair has its measured bandwidth (ClusterSpec::measured)
  Peers peers = Peers::none;
  std::vector<BytesPerSecond> to_host, from_host;  // of each GPU alone; empty where that was not measured
  /// GPUs that share their way to the host: copies of all of them at once take turns.
  std::vector<std::vector<std::size_t>> buses;
  /// The largest error of a GPU's bandwidth while all copy at once, as the cluster has it, to and from the host; 0
  /// where that was not measured.
  double concurrent_error = 0;
  /// The largest error of a pair's bandwidth in the cluster that was made, and of what one GPU writes to all others at
  /// once; nothing where that was not measured.
  double pair_error = 0;
  std::optional<double> one_to_all_error;
  /// Both directions at once over the sum of each alone, the median: of ways to the host, and of pairs.
  std::optional<double> host_both, peers_both;
  std::vector<std::string> notes;  // what the file does not say, or the cluster cannot
};

/// The cluster of a machine; GPUs are of `kind` (device_kinds.hpp) where it is not empty, else of the kinds that the
/// machine, or the topology, names, or of none.
///
///     pairs     each ordered pair has its own bandwidth. NVLink where the largest is over 60 GB/s, or all are one or
///               two links of NVLink 2 (24.2); else PCIe. NVLink to a switch where all pairs of more than two GPUs are
///               there, and one GPU writes to all others no faster than 1.25 times one (links of their own multiply);
///               where that was not measured, by the topology's number of links (more than 18 in all), or where
///               no pair is 10 % off the median and that is over 150 GB/s
///     host      a link each; buses are the topology's switches where they slow GPUs down at once (1.08 times or
///               more), else runs of g neighbours in one package that each come down to 1/g of their own bandwidth
///               (to 1/4 of g)
///     duplex    half where both directions together reach less than 3/4 of their sum: nearer to one than to both
///     latency   as measured, else that of the built-in clusters
///
/// Throws InputError: "unknown-kind"; "topology" where it is of other GPUs.
BandwidthReport machine_cluster(const MeasuredMachine& machine, const std::string& kind = {},
                                const GpuTopology* topology = nullptr);

/// The device kind that a driver's or the PCI database's name of a GPU means: "V100-SXM2-16GB" of "Tesla
/// V100-SXM2-16GB" and of "GV100GL [Tesla V100 SXM2 16GB]"; null where none does.
const struct DeviceKind* kind_of_gpu(std::string_view name);

}  // namespace trainyard
