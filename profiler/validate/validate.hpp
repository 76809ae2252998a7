#pragma once

#include <string>
#include <utility>
#include <vector>

#include "profiler/backend.hpp"
#include "profiler/validate/validation.hpp"

namespace trainyard {

/// Runs schedules of one problem in turns, `warm` + `measured` steps each, so that slow changes of the machine meet all
/// of them alike, and holds each prediction against its runs.
///
/// A step's times do not count, and it is dropped with the reason, where other work took more than 1 % of it from its
/// ops or between them ("other-work"), or where ops that took over 3 times their own median make up more than 1 % of it
/// ("slow-op": a host took the core, and the guest cannot see it). Its structure is judged all the same: what was lost
/// within an op or before it is part of the time that is replayed; only not where over half of a step was lost before
/// ops.
///
/// fail: an order or an output that is wrong, a structural error beyond its tolerance, a total error beyond its own.
/// inconclusive: fewer than `least_clean_steps` steps that can be replayed; or a total error beyond its
/// tolerance that is not known well enough: by too few clean steps, or above a noise floor of 15 %. Outputs: the loss
/// and all parameters after the first step are those of a run on one device, bit for bit; on a CPU and a GPU, but for
/// rounding (outputs.hpp).
std::vector<Validation> validate(Backend& backend, const Problem& problem, const Workload& workload,
                                 const std::vector<std::pair<std::string, Schedule>>& schedules,
                                 const ValidateOptions& options);

}  // namespace trainyard
