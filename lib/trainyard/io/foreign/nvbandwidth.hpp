#pragma once

#include <string>
#include <string_view>

#include "trainyard/io/foreign/measured_machine.hpp"

namespace trainyard {

/// Whether the text looks like nvbandwidth's JSON output: its first key is "nvbandwidth".
bool is_nvbandwidth(std::string_view text);

/// Reads the JSON output of nvbandwidth (versions 0.5 to 0.8) as a cluster (machine_cluster); `name` is the file in
/// messages.
///
/// Only copies by copy engines are used. `device_to_device_memcpy_write_ce` gives the bandwidths of pairs (the column's
/// GPU writes to the row's). `host_to_device_memcpy_ce` and its reverse give those of the paths to the host,
/// `all_to_host_memcpy_ce` and `host_to_all_memcpy_ce` those of all GPUs at once, and the bidirectional tests those of
/// both directions at once. `one_to_all_write_ce` tells whether there is a switch. Latencies are those of the built-in
/// clusters, because the file's latencies are of dependent loads, not of copies.
///
/// Throws InputError with positions. The codes are those of every JSON file (read_graph), "nvbandwidth" if the program
/// failed or a required test is missing or did not pass, "cell" for a value that is not a bandwidth, and those of
/// machine_cluster().
BandwidthReport parse_nvbandwidth(std::string_view text, const std::string& name, const std::string& kind = {},
                                  const GpuTopology* topology = nullptr);

}  // namespace trainyard
