#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

/// The kind of a profile's device.
std::string device_kind(const Profile& profile, const std::string& device);

/// Op times by op, and by signature over all ops that have it, each by device kind and mode; of ops that ran alone.
/// Sorted by kind, mode, and name or signature. Means of what is left without outliers; 95 % intervals of the mean from
/// the normal distribution.
///
/// Throws InputError: "too-few-points" for an op of which no sample is left, "samples" for ops of one signature with
/// different FLOPs or bytes.
std::vector<CalibratedOp> op_table(std::span<const Profile> profiles, std::vector<std::string>& notes);

/// Factor by which ops of each type take longer while several devices with one memory run ops: the mean times of all
/// that were timed both alone and so, together over alone, summed, so that a step's time comes out right. Other ops are
/// left out with a note.
std::vector<CoRunFactor> co_run_factors(std::span<const Profile> profiles, std::span<const CalibratedOp> alone,
                                        std::vector<std::string>& notes);

/// What copies through the memory add to ops of each type (problem/memory_load.hpp): over the ops that were timed
/// beside copies and without, (sum of the times beside - sum of those alone) / sum of (time alone x share of the
/// bandwidth), at least 0. Left out with a note: ops timed only beside, and devices whose bandwidth the profile does
/// not say.
std::vector<CopySensitivity> copy_sensitivities(std::span<const Profile> profiles, std::span<const CalibratedOp> alone,
                                                std::vector<std::string>& notes);

/// Launch overheads, hand-offs and gaps by device kind. A gap is measured as such, or as what whole steps on one device
/// take beyond the sum of their ops' mean times, or as the dispatch of an op; in this order.
///
/// Throws InputError, "two-precisions": one kind measured with products in float32, and in TF32 (the detail
/// "products").
std::vector<CalibratedDevice> calibrated_devices(std::span<const Profile> profiles, std::vector<std::string>& notes);

}  // namespace trainyard::calibrate
