#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

/// Fits the measurements of one link by one to three segments time = latency + bytes x ns_per_byte. Uses relative least
/// squares, since a line by absolute least squares may miss small transfers by any factor. Adds a 95 % interval of each
/// coefficient (bootstrap over the samples, with the seed) and the quality of the fit, including the error at every
/// second size when these are held out.
///
/// A size whose samples are all wrong is dropped as an outlier: the squared error falls below a twentieth without it,
/// and its time is more than a quarter away from the prediction of the other sizes. At most a quarter of the sizes are
/// dropped. `notes` gets a sentence for each drop.
///
/// Throws InputError: "too-few-points" for fewer than 3 sizes with good samples; "samples" for a time of 0 or more than
/// a second per byte.
CalibratedLink fit_link(const LinkMeasurement& link, std::uint64_t seed, std::vector<std::string>& notes);

}  // namespace trainyard::calibrate
