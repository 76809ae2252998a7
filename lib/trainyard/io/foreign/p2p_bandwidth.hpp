#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/foreign/measured_machine.hpp"

namespace trainyard {

/// Whether the text is the output of p2pBandwidthLatencyTest, a sample program of CUDA.
bool is_p2p_bandwidth(std::string_view text);

/// Reads the output as a cluster (machine_cluster); `name` is the file in messages. The bandwidth of a pair, from the
/// row's GPU to the column's, is that of the unidirectional matrix with peer access if the connectivity matrix has a 1,
/// otherwise that of the matrix without. Bandwidths of both directions at once and latencies (GPU, copies of 16 bytes)
/// are chosen in the same way. The sample makes no copies to the host. If pairs lack peer access, the paths to the host
/// get the bandwidth of the copies without peer access.
///
/// Throws InputError with positions: "p2p" if a required matrix is missing (unidirectional, P2P=Disabled and
/// P2P=Enabled) or truncated, "cell" for a value that is not a number, and the codes of machine_cluster().
BandwidthReport parse_p2p_bandwidth(std::string_view text, const std::string& name, const std::string& kind = {},
                                    const GpuTopology* topology = nullptr);

}  // namespace trainyard
