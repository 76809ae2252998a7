#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/foreign/measured_machine.hpp"

namespace trainyard {

/// Whether the text looks like such a file: its first key is "nvbandwidth".
bool is_nvbandwidth(std::string_view text);

/// Reads the text of such a file (versions 0.5 to 0.8) as a cluster (machine_cluster); `name` is the file in messages.
///
/// From the copies by copy engines: `device_to_device_memcpy_write_ce` gives the pairs (the column's GPU writes to the
/// row's), `host_to_device_memcpy_ce` and its reverse the ways to the host, `all_to_host_memcpy_ce` and
/// `host_to_all_memcpy_ce` what all reach at once, `one_to_all_write_ce` whether there is a switch, the bidirectional
/// tests both directions at once. Latencies are those of the built-in clusters: the file's are of dependent loads, not
/// of copies.
///
/// Throws InputError with positions: those of every JSON file (read_graph), "nvbandwidth" where it failed or a test
/// that is needed is missing or did not pass, "cell" for what is no bandwidth; and what machine_cluster throws.
BandwidthReport parse_nvbandwidth(std::string_view text, const std::string& name, const std::string& kind = {},
                                  const GpuTopology* topology = nullptr);

}  // namespace trainyard
