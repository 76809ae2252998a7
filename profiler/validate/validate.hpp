#pragma once

#include <string>
#include <utility>
#include <vector>

#include "profiler/backend.hpp"
#include "profiler/validate/validation.hpp"

namespace trainyard {

/// Runs schedules of one problem in turns, `warm` + `measured` steps each, so that slow changes of the machine affect
/// all of them alike, and compares each prediction with its runs.
///
/// A step is dropped, with the reason, if other work took more than 1 % of it, within ops or between them
/// ("other-work"), or if ops longer than 3 times their median exceed their medians by more than 1 % of the step
/// ("slow-op": the host of a virtual machine took the core, which the guest cannot see). Its structure is judged all
/// the same, since time lost within or before an op is part of the replay, unless over half of the step was lost before
/// ops.
///
/// The verdict is fail for a wrong order or output, or for a structural or total error beyond its tolerance. It is
/// inconclusive if fewer than `least_clean_steps` steps can be replayed, or if the total error exceeds its tolerance
/// but is uncertain, by too few clean steps or a noise floor above 15 %. Outputs are loss and all parameters after the
/// first step: they must equal those of a run on one device bit for bit, or up to rounding on a CPU and a GPU
/// (outputs.hpp).
std::vector<Validation> validate(Backend& backend, const Problem& problem, const Workload& workload,
                                 const std::vector<std::pair<std::string, Schedule>>& schedules,
                                 const ValidateOptions& options);

}  // namespace trainyard
