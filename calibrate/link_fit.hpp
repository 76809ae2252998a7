#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

struct LinkFitOptions {
  std::size_t most_segments = 3;
  int bootstrap_rounds = 200;
  std::uint64_t seed = 1;
};

/// Fits what was measured of one link: from one to three segments time = latency + bytes x ns_per_byte by relative
/// least squares (a line by absolute least squares may miss small
/// transfers by any factor), a 95 % interval of
/// each coefficient by bootstrap over the samples, and how well it fits, also at every second size when it is left out.
///
/// A size all of whose samples lie off is dropped as an outlier: where without it the error falls to a twentieth, and
/// it is more than a quarter away from what the other sizes predict. At most a quarter of the sizes are dropped so.
/// `notes` gets a sentence for each thing that was dropped.
///
/// Throws InputError, code "too-few-points": fewer than 3 sizes with good samples; "samples": a time of 0.
CalibratedLink fit_link(const LinkMeasurement& link, const LinkFitOptions& options, std::vector<std::string>& notes);

}  // namespace trainyard::calibrate
