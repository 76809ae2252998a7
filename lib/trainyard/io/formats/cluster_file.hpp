#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// Reads a cluster file (TOML; "-" is standard input) and checks that make_cluster accepts it.
///
///     name = "two-v100"           # the file's own name where it is left out
///     [[device]]
///     name = "gpu0"
///     kind = "V100-SXM2-16GB"     # a known kind; or one of your own together with `class`
///     memory = "12 GiB"           # overrides the kind's; "unlimited" takes the limit away
///     [[device]]
///     name = "cpu0"
///     class = "cpu"               # then also memory, peak, memory_bandwidth, launch_overhead, as far as known
///     gap = "1 us"
///     [[switch]]
///     name = "pcie"
///     [[link]]
///     name = "bus0"               # "FROM-TO" where it is left out
///     from = "gpu0"
///     to = "pcie"
///     bandwidth = "12 GB/s"
///     latency = "5 us"            # 0 where it is left out, like `gap`
///     duplex = "half"             # full, half
///     sharing = "serial"          # serial, none, fair
///     bus = "host"                # shares one more resource with the links of the same bus
///     [[egress]]                  # device, bandwidth, latency, gap, broadcast
///     [[route]]                   # from, to, links
///     [[measured]]                # from, to, bandwidth, latency: in place of what the links say, which stay held
///     [fabric]                    # in place of switches, links, egresses and routes: see cluster/fabric.hpp
///     hosts = 128
///     devices_per_host = 8
///     kind = "H100"               # of every device, as of [[device]]; not where devices are listed
///     port_bandwidth = "450 GB/s" # then also port_latency
///     nics_per_host = 8           # as many as devices where it is left out; shared, or several a device
///     nic_bandwidth = "50 GB/s"   # then also nic_latency
///     leaf = "rail"               # rail, rack
///     hosts_per_leaf = 32         # all where it is left out
///     oversubscription = 2        # 1 where it is left out
///     uplink_latency = "500 ns"
///     hosts_per_pod = 128         # all where it is left out: then there are no cores
///     core_oversubscription = 7   # 1 where it is left out
///     core_latency = "500 ns"
///     torus = [4, 4, 4]           # of a host's devices, in place of its switch; then without devices_per_host
///     sharing = "fair"            # serial, fair
///
/// Quantities are strings with a unit; a bare number is an error that names the units. Throws InputError with
/// positions: "toml", "type", "unit", "missing-key", "unknown-key", "unknown-kind", "unknown-word", and what
/// make_cluster finds.
ClusterSpec read_cluster(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
ClusterSpec parse_cluster(std::string_view text, const std::string& name);

/// Writes the specification so that reading it gives an equal one; what has its default, or its kind's value, is left
/// out. Bytes of names that are not UTF-8 become U+FFFD.
void write_cluster(const ClusterSpec& spec, std::ostream& out);

}  // namespace trainyard
