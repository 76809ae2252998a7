#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// Reads a cluster file (TOML; "-" is standard input) and checks that make_cluster accepts it.
///
///     name = "two-v100"           # default: the name of the file
///     [[device]]
///     name = "gpu0"
///     kind = "V100-SXM2-16GB"     # a known kind; any other kind needs `class` as well
///     memory = "12 GiB"           # overrides the kind's; "unlimited" removes the limit
///     [[device]]
///     name = "cpu0"
///     class = "cpu"               # with memory, peak, memory_bandwidth, launch_overhead as far as known
///     gap = "1 us"
///     part_of = "gpu"             # devices with one value are parts of one GPU: they share its memory
///     [[switch]]
///     name = "pcie"
///     [[link]]
///     name = "bus0"               # default: "FROM-TO"
///     from = "gpu0"
///     to = "pcie"
///     bandwidth = "12 GB/s"
///     latency = "5 us"            # default: 0; the same for `gap`
///     duplex = "half"             # full, half
///     sharing = "serial"          # serial, none, fair
///     bus = "host"                # links of one bus share one more resource
///     [[egress]]                  # device, bandwidth, latency, gap, broadcast
///     [[route]]                   # from, to, links
///     [[measured]]                # from, to, bandwidth, latency: replace the links' times; the links stay occupied
///     [fabric]                    # instead of switches, links, egresses and routes: see cluster/fabric.hpp
///     hosts = 128
///     devices_per_host = 8
///     kind = "H100"               # all keys of a [[device]], for every device; omit them if devices are listed
///     port_bandwidth = "450 GB/s" # then also port_latency
///     nics_per_host = 8           # default: one per device; several devices may share one, or a device have several
///     nic_bandwidth = "50 GB/s"   # then also nic_latency
///     leaf = "rail"               # rail, rack
///     hosts_per_leaf = 32         # default: all
///     oversubscription = 2        # default: 1
///     uplink_latency = "500 ns"
///     hosts_per_pod = 128         # default: all hosts, without core switches
///     core_oversubscription = 7   # default: 1
///     core_latency = "500 ns"
///     torus = [4, 4, 4]           # of a host's devices, instead of a switch; devices_per_host follows from it
///     sharing = "fair"            # serial, fair
///
/// Quantities are strings with a unit; a bare number is an error that lists the units. Throws InputError with
/// positions: "toml", "type", "unit", "missing-key", "unknown-key", "unknown-kind", "unknown-word", and the codes of
/// make_cluster().
ClusterSpec read_cluster(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
ClusterSpec parse_cluster(std::string_view text, const std::string& name);

/// Writes the specification so that reading it gives an equal one. Values that equal the default, or that of the
/// device's kind, are left out, and so are measured routes of a calibration. Bytes of names that are not UTF-8 become
/// U+FFFD.
void write_cluster(const ClusterSpec& spec, std::ostream& out);

}  // namespace trainyard
