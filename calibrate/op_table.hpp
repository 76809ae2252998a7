#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

/// Kind of a profiled device: its `kind`, else its class. If the profile does not list the device, its name.
std::string device_kind(const Profile& profile, const std::string& device);

/// Times of ops that ran alone (one busy device, no copies), by device kind and mode: one row per op, and one per
/// signature, pooled over all ops that have it. Sorted by kind, mode, and name or signature. Each row has the mean
/// without outliers and its 95 % interval from the normal distribution.
///
/// Throws InputError: "too-few-points" for an op without a good sample, "samples" for ops of one signature with
/// different FLOPs or bytes.
std::vector<CalibratedOp> op_table(std::span<const Profile> profiles, std::vector<std::string>& notes);

/// Co-run factors by device kind, op type and number of busy devices: how many times longer ops take while several
/// devices with one memory run ops. A factor is the summed mean times together over the summed mean times alone, of the
/// ops timed both ways, so that step times come out right. Other ops are left out with a note.
std::vector<CoRunFactor> co_run_factors(std::span<const Profile> profiles, std::span<const CalibratedOp> alone,
                                        std::vector<std::string>& notes);

/// Copy sensitivities by device kind and op type: how much copies through the memory slow down ops
/// (problem/memory_load.hpp). Over the ops timed both beside copies and alone: (sum of the times beside copies - sum of
/// the times alone) / sum of (time alone x share of the bandwidth that the copies take), at least 0. Left out with a
/// note: ops not timed alone, and devices whose memory bandwidth the profile lacks.
std::vector<CopySensitivity> copy_sensitivities(std::span<const Profile> profiles, std::span<const CalibratedOp> alone,
                                                std::vector<std::string>& notes);

/// Launch overheads, hand-offs and gaps by device kind. A gap is the first available of: the measured gap; the time of
/// whole steps on one device beyond the sum of their ops' mean times, per op; the dispatch time of an op.
///
/// Throws InputError "two-precisions" if devices of one kind were measured with products in float32 and in TF32 (the
/// device detail "products").
std::vector<CalibratedDevice> calibrated_devices(std::span<const Profile> profiles, std::vector<std::string>& notes);

}  // namespace trainyard::calibrate
