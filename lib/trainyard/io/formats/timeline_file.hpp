#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Writes a `trainyard-timeline/1` file, so that reading it gives an equal timeline. A timeline does not contain the
/// placement of its ops, so it is passed separately.
///
/// A transfer that a broadcast carried to several devices has "also_to". A device whose memory was exceeded has
/// "out_of_memory". "links" has one row per serialized resource, with "from" and "to" if the resource is one direction
/// of a link. Throws InputError as check_sizes() and check_transfers() do, and if an out-of-memory report refers to
/// tensors or ops that the problem does not have ("unknown-tensor", "unknown-op").
void write_timeline(const Timeline& timeline, const Problem& problem, const Placement& placement, std::ostream& out);

/// Reads a `trainyard-timeline/1` file ("-" is standard input) for the problem. The file must list every op exactly
/// once. Fills `placement` unless it is null. Throws InputError with positions, as read_schedule() does.
Timeline read_timeline(const std::filesystem::path& path, const Problem& problem, Placement* placement = nullptr);
/// Reads a text; `name` is the file in messages.
Timeline parse_timeline(std::string_view text, const std::string& name, const Problem& problem,
                        Placement* placement = nullptr);

}  // namespace trainyard
