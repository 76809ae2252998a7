#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/report/what_if.hpp"

namespace trainyard::program {

/// Names of the cluster, each with a factor: "gpu0=2x,links=4x".
using AskedWhatIf = std::vector<std::pair<std::string, double>>;
/// Parses such a list. The factor is a slowdown for --slow, a speed-up or growth for other options. Throws UsageError.
AskedWhatIf parse_what_if(const std::string& text, const std::string& option);
/// Parses a slowdown such as "1.5", from 1 to 1000. Throws UsageError.
double parse_slowness(const std::string& text, const std::string& option);

/// --faster and --larger on this cluster. Both throw UsageError for an unknown name, with the nearest.
WhatIf with_more_speed(const AskedWhatIf& asked, const Cluster& cluster);
WhatIf with_more_memory(const AskedWhatIf& asked, const Cluster& cluster);
/// --slow: ops on the devices and transfers on the links take longer by the factor.
WhatIf with_slow(const AskedWhatIf& asked, const Cluster& cluster);

}  // namespace trainyard::program
