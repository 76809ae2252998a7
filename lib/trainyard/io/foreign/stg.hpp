#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Reads a task graph of the Standard Task Graph Set (T. Tobita, H. Kasahara: A standard task graph set for fair
/// evaluation of multiprocessor scheduling algorithms. J. Scheduling 5(5), 2002). The file gives the number n of tasks,
/// then a line for each of the n + 2 tasks 0 to n + 1: its number, its processing time, the number of its predecessors,
/// and the predecessors. The first and the last task are dummies that take no time. Blank lines are ignored, and "#"
/// begins a comment.
///
/// Each task becomes an op "t0", "t1", ... with its time in nanoseconds on every device; edges carry no data. Throws
/// InputError with line and column: "stg-line", "number", "unknown-task", "count", and as GraphBuilder::build() does.
Graph read_stg(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
Graph parse_stg(std::string_view text, const std::string& name);

}  // namespace trainyard
