#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "inputs.hpp"
#include "profiler/backend.hpp"
#include "profiler/validate.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/report/page.hpp"

namespace trainyard::program {

/// --backend; throws UsageError for an unknown one, InputError ("missing-backend") for one that is not in this build.
std::unique_ptr<Backend> chosen_backend(const Arguments& arguments);
/// --rounds.
int chosen_rounds(const Arguments& arguments);
/// --time in nanoseconds; nothing without it. Throws UsageError.
std::optional<std::int64_t> chosen_time(const Arguments& arguments);

/// Groups of ops on devices at random; nothing where that does not pass check_schedule.
std::optional<Schedule> random_schedule(const Problem& problem, std::uint64_t seed);

/// Schedules of the problem to rank, but that of the placer `but`: of placers, then of random placements.
std::vector<std::pair<std::string, Schedule>> schedules_to_rank(const Problem& problem, std::size_t count,
                                                                const std::string& but);

/// "predicted 1.2 ms, measured 1.3 ms (1.2 to 1.5): ..." and the tables of the largest errors.
std::string validation_text(const Problem& problem, const Schedule& schedule, const Validation& validation);
/// Both timelines.
std::vector<PageRun> page_runs(const Problem& problem, const Schedule& schedule, const Validation& validation,
                               const std::string& name);

}  // namespace trainyard::program
