#pragma once

#include <memory>

#include "profiler/backend.hpp"
#include "trainyard/io/formats/runs_file.hpp"

namespace trainyard {

/// Plays back runs of another program (profiler/torch/run.py execute). Steps follow the order of the file, and start
/// over after the last. For a schedule that the file lacks, prepare() throws InputError ("no-recorded-run") naming the
/// runs that it has. Memory follows the rules of Timeline, over the recorded times. `runs` must outlive the backend.
std::unique_ptr<Backend> make_recorded_backend(const RecordedRuns& runs);

}  // namespace trainyard
