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
  /// Largest accepted relative residual of a link fit, at any size. A larger one is reported as a fault.
  double most_residual = 0.25;
};

/// A calibration, notes on dropped measurements, and the faults that make it unusable.
struct Result {
  Calibration calibration;
  std::vector<std::string> notes;
  std::vector<std::string> faults;  // empty if the calibration may be used
};

/// Fits the profiles of one machine. Measurements of one op, link or overhead in several profiles are pooled.
/// Deterministic: equal profiles and options give equal calibrations.
///
/// Throws InputError: "too-few-points" if no profile holds an op or a link, "too-large" for a time over 2^42 ns, and
/// the errors of op_table, calibrated_devices and fit_link, with one finding for each fault.
Result fit_profiles(std::span<const Profile> profiles, const Options& options = {});

}  // namespace trainyard::calibrate
