#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// A machine as NVIDIA's nvbandwidth measured it (`nvbandwidth -j`, versions 0.5 to 0.8).
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
  std::vector<BytesPerSecond> to_host, from_host;  // of each GPU alone
  /// GPUs that share their way to the host: copies of all of them at once take turns.
  std::vector<std::vector<std::size_t>> buses;
  /// The largest error of a GPU's bandwidth while all copy at once, as the cluster has it, to and from the host; 0
  /// where that was not measured.
  double concurrent_error = 0;
  std::vector<std::string> notes;  // what the file does not say, or the cluster cannot
};

/// Whether the text looks like such a file: its first key is "nvbandwidth".
bool is_nvbandwidth(std::string_view text);

/// Reads the file's text; `name` is the file in messages. GPUs are of the kind that the file names, where it is a known
/// one, or of `kind` (device_kinds.hpp), or of none.
///
/// From the copies by copy engines: `device_to_device_memcpy_write_ce` gives the pairs (the column's GPU writes to the
/// row's), `host_to_device_memcpy_ce` and its reverse the ways to the host; a switch is told from links of their own by
/// `one_to_all_write_ce`, which they multiply. Buses are runs of g neighbours that each come down to 1/g of their
/// bandwidth when all copy to the host, or from it, at once (`all_to_host_memcpy_ce`, `host_to_all_memcpy_ce`).
/// Latencies are those of the built-in clusters: the file's are of dependent loads, not of copies.
///
/// Throws InputError with positions: those of every JSON file (read_graph), "nvbandwidth" where it failed or a test
/// that is needed is missing or did not pass, "cell" for what is no bandwidth, "unknown-kind".
BandwidthReport parse_nvbandwidth(std::string_view text, const std::string& name, const std::string& kind = {});

}  // namespace trainyard
