#pragma once

#include <string_view>

#include "trainyard/simulate/noise.hpp"

namespace trainyard::program {

/// Parses --noise: "5%", or by op type "Conv=10%,default=3%". Throws UsageError.
OpNoise parse_noise(std::string_view text);

}  // namespace trainyard::program
