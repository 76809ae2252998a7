#pragma once

#include <memory>
#include <vector>

#include "profiler/backend.hpp"
#include "profiler/run/recording/action_log.hpp"

namespace trainyard {

/// Runs nothing: a step takes the times that the simulator gives it. What an executor would do at these times is
/// written down action by action and held against the rules of hazards(). Any schedule and any cluster.
///
/// `log`: gets the actions of the last step; may be null.
std::unique_ptr<Backend> make_recording_backend(ActionLog* log = nullptr);

/// Actions of an executor in a run with these times: memory is taken as an op or a transfer begins, and freed as its
/// last user ends. At one moment first all that ends, then what takes no time, producers first, then all that begins.
std::vector<Action> actions_of(const Problem& problem, const Schedule& schedule, const Timeline& timeline);

}  // namespace trainyard
