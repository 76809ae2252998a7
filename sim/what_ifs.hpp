#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/report/what_if.hpp"

namespace trainyard::program {

/// "gpu0=2x,links=4x": names of the cluster, each with a factor.
using AskedWhatIf = std::vector<std::pair<std::string, double>>;
/// Throws UsageError. In --slow a factor says how many times as long it takes, elsewhere how many times as good it is.
AskedWhatIf parse_what_if(const std::string& text, const std::string& option);
/// "1.5": how many times as long; from 1 to 1000. Throws UsageError.
double parse_slowness(const std::string& text, const std::string& option);

/// --faster and --larger on this cluster. Throw UsageError for a name that is not on it, with the nearest.
WhatIf with_more_speed(const AskedWhatIf& asked, const Cluster& cluster);
WhatIf with_more_memory(const AskedWhatIf& asked, const Cluster& cluster);
/// --slow: ops there take so many times as long, transfers likewise.
WhatIf with_slow(const AskedWhatIf& asked, const Cluster& cluster);

}  // namespace trainyard::program
