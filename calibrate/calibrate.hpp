#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

/// A calibration, notes on dropped measurements, and the faults that make it unusable.
struct Result {
  Calibration calibration;
  std::vector<std::string> notes;
  std::vector<std::string> faults;  // empty if the calibration may be used
};

/// Fits the profiles of one machine. Measurements of one op, link or overhead in several profiles are pooled.
/// `seed` is that of the bootstrap intervals. Deterministic: equal profiles and seeds give equal calibrations.
///
/// Throws InputError: "too-few-points" if no profile holds an op or a link, "too-large" for a time over 2^42 ns, and
/// the errors of op_table, calibrated_devices and fit_link, with one finding for each fault.
Result fit_profiles(std::span<const Profile> profiles, std::uint64_t seed = 1);

}  // namespace trainyard::calibrate
