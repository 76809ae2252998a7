#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/link_fit.hpp"
#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

struct Options {
  LinkFitOptions links;
  /// A link that is further than this from its fit, at any size, makes a bad calibration.
  double most_residual = 0.25;
};

/// A calibration, what was dropped on the way, and what makes it a bad one.
struct Result {
  Calibration calibration;
  std::vector<std::string> notes;
  std::vector<std::string> faults;  // none: it may be used
};

/// Fits profiles of one machine; measurements of the same thing in several of them are pooled. The same profiles and
/// options give the same calibration.
///
/// Throws InputError, with one finding for each fault: no profile with a measurement ("too-few-points"), what fit_link
/// and op_table say.
Result fit_profiles(std::span<const Profile> profiles, const Options& options = {});

}  // namespace trainyard::calibrate
