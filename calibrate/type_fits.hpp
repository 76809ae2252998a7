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
/// by relative least squares over the means above 0 of at least 4 signatures of different sizes, the largest at least
/// twice the smallest in FLOPs or bytes. A term is there only where the Bayesian information criterion wants it. A fit
/// that is off by more than half at a point, or at every second one when these are held out, is none: a note says so.
std::vector<CalibratedFit> type_fits(std::span<const CalibratedOp> ops, std::vector<std::string>& notes);

/// Shares of the device's peak and memory bandwidth, by op type, that make
/// max(FLOPs / (peak x compute), bytes / (bandwidth x memory)) fit the measured means with the least sum of
/// |log(fitted / measured)|. A side that no op of the type is bound by keeps the general efficiency of the type.
///
/// Fills in the rates of a device kind that has none: the largest FLOPs / time and bytes / time that an op reached.
/// `notes` names the type that is furthest above a peak that was given (above a bandwidth: caches reach more).
std::vector<CalibratedEfficiency> efficiencies(std::span<const CalibratedOp> ops,
                                               std::vector<CalibratedDevice>& devices, std::vector<std::string>& notes);

}  // namespace trainyard::calibrate
