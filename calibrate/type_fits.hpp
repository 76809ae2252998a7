#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainyard/cost/calibration.hpp"

namespace trainyard::calibrate {

/// Fits over the ops of one type on one kind of device:
///
///     time = fixed + FLOPs x ns_per_flop + bytes x ns_per_byte,   no coefficient negative
///
/// by relative least squares over the positive means of at least 4 signatures; the largest must have at least twice the
/// FLOPs or bytes of the smallest. The terms are chosen by the Bayesian information criterion. A fit is rejected with a
/// note if it is off by more than half at any point, or if a fit to every second point is at any of the others.
std::vector<CalibratedFit> type_fits(std::span<const CalibratedOp> ops, std::vector<std::string>& notes);

/// Efficiencies by op type: the shares `compute` of the device's peak and `memory` of its bandwidth for which the
/// roofline
///
///     time = max(FLOPs / (peak x compute), bytes / (bandwidth x memory))
///
/// fits the measured means with the least sum of |log(fitted / measured)|. A side that bounds no op of the type keeps
/// the general efficiency of the type.
///
/// For a device kind without rates, fills in the largest FLOPs / time and bytes / time of any op. `notes` names the op
/// type that exceeds a given peak most. Exceeding a given bandwidth is not reported, since caches are faster.
std::vector<CalibratedEfficiency> efficiencies(std::span<const CalibratedOp> ops,
                                               std::vector<CalibratedDevice>& devices, std::vector<std::string>& notes);

}  // namespace trainyard::calibrate
