#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A prediction for a schedule. It is written for people; readers ignore it.
struct SchedulePrediction {
  Nanoseconds makespan;
  std::optional<Nanoseconds> lower_bound = {};
  std::optional<bool> fits = {};
};

/// Reads a `trainyard-schedule/1` file ("-" is standard input) for the problem and checks it with check_schedule().
///
/// Without "policy", the policy is strict if there is an "order", otherwise priority if there is a "priority",
/// otherwise fifo. Ops without a priority have priority 0. "graph" and "cluster" name the inputs that the schedule was
/// made for; other names are accepted as long as the contents fit. "splits" lists the rewrites, and the rest of the
/// file refers to the rewritten problem (rewrite/apply_rewrites.hpp).
///
/// Throws InputError with positions. The codes are those of every JSON file (read_graph), "unknown-op" and
/// "unknown-device" with the nearest name, "missing-op", "other-graph", "other-cluster", "unknown-policy",
/// "unknown-dimension", "unknown-collective", "exchange", "split-parts", "unsplittable", and those of check_schedule().
Schedule read_schedule(const std::filesystem::path& path, const Problem& problem);
/// Reads a text; `name` is the file in messages.
Schedule parse_schedule(std::string_view text, const std::string& name, const Problem& problem);

/// "fifo", "priority", "strict".
const char* name_of(Policy policy);

/// Writes the schedule so that reading it gives an equal one, except for `search`, `parallel`, `plan_bound` and
/// `notes`, which the file does not keep. `prediction` may be null.
///
/// Throws InputError for a schedule that the reader would reject: a custom rule of the caller ("own-rule"), a `plan` or
/// an order of another size ("size", "order"), times of `plan` below 0 or above 2^62 ns ("range"), invalid numbers of
/// rewrites, and the errors of check_schedule().
void write_schedule(const Schedule& schedule, const Problem& problem, const SchedulePrediction* prediction,
                    std::ostream& out);

}  // namespace trainyard
