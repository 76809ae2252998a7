#pragma once

#include <memory>
#include <vector>

#include "profiler/backend.hpp"
#include "profiler/run/recording/action_log.hpp"

namespace trainyard {

/// Runs nothing: a step takes its simulated time. The actions that an executor would take at these times are recorded
/// and checked by hazards(). Accepts any cluster. Throws InputError ("splits") for rewrites that the problem does not
/// have.
///
/// `log` gets the actions of the last step; may be null.
std::unique_ptr<Backend> make_recording_backend(ActionLog* log = nullptr);

/// Actions of an executor in a run with these times. Memory is allocated when an op or a transfer begins, and freed
/// when its last user ends. Actions at the same time are ordered: ends, then ops and transfers of zero duration
/// (producers first), then begins.
std::vector<Action> actions_of(const Problem& problem, const Schedule& schedule, const Timeline& timeline);

}  // namespace trainyard
