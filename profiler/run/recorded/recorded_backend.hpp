#pragma once

#include <memory>

#include "profiler/backend.hpp"
#include "trainyard/io/formats/runs_file.hpp"

namespace trainyard {

/// Plays back what another program ran (profiler/torch/run.py execute): a run's next step is the file's next one, and
/// after the last the first again. Of a schedule that the file does not have, prepare() throws InputError
/// ("no-recorded-run") naming those that it has. Memory is held by the rules of Timeline, over the times recorded.
/// `runs` must outlive the backend.
std::unique_ptr<Backend> make_recorded_backend(const RecordedRuns& runs);

}  // namespace trainyard
