#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Prediction for a schedule, for the file's reader: recorded, not read back.
struct SchedulePrediction {
  Nanoseconds makespan;
  std::optional<Nanoseconds> lower_bound = {};
  std::optional<bool> fits = {};
};

/// Reads a `trainyard-schedule/1` file ("-" is standard input) for the problem and checks it (check_schedule).
///
/// Where "policy" is absent it is strict if there is an "order", else priority if there is a "priority", else fifo. Ops
/// without a priority have 0. "graph" and "cluster" name what the schedule was made for: other names are accepted as
/// long as the contents fit. "splits" are the rewrites; the rest of the file is about the scheduled problem
/// (rewrite/apply_rewrites.hpp).
///
/// Throws InputError with positions: those of every JSON file (read_graph), "unknown-op" and "unknown-device" with the
/// nearest name, "missing-op", "other-graph", "other-cluster", "unknown-policy", "unknown-dimension", "split-parts",
/// "unsplittable", and what check_schedule finds.
Schedule read_schedule(const std::filesystem::path& path, const Problem& problem);
/// Reads a text; `name` is the file in messages.
Schedule parse_schedule(std::string_view text, const std::string& name, const Problem& problem);

/// "fifo", "priority", "strict".
const char* name_of(Policy policy);

/// Writes the schedule so that reading it gives an equal one, but for what a file does not keep: `search`, `parallel`,
/// `plan_bound` and `notes`. `prediction` may be null. Throws InputError for what a reader would not take: a rule of
/// the caller's own ("own-rule"), another size of `plan` or of an order ("size", "order"), times of `plan` below 0 or
/// beyond 2^62
/// ("range"), numbers of rewrites, and as check_schedule() does.
void write_schedule(const Schedule& schedule, const Problem& problem, const SchedulePrediction* prediction,
                    std::ostream& out);

}  // namespace trainyard
