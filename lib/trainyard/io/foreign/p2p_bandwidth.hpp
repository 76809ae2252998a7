#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/foreign/measured_machine.hpp"

namespace trainyard {

/// Whether the text is what CUDA's sample p2pBandwidthLatencyTest prints.
bool is_p2p_bandwidth(std::string_view text);

/// Reads it as a cluster (machine_cluster); `name` is the file in messages. Pairs are those of the unidirectional
/// matrix with peer access (from the row's GPU to the column's) where the connectivity matrix has a 1, else of that
/// without; both directions at once and the GPU's latencies (of copies of 16 bytes) in the same way. The sample has no
/// copies to the host: a machine without peer access everywhere gets its ways to the host from the copies without it.
///
/// Throws InputError with positions: "p2p" where a matrix that is needed is missing (unidirectional, P2P=Disabled and
/// P2P=Enabled), or cut short, "cell" for what is no number; and what machine_cluster throws.
BandwidthReport parse_p2p_bandwidth(std::string_view text, const std::string& name, const std::string& kind = {},
                                    const GpuTopology* topology = nullptr);

}  // namespace trainyard
