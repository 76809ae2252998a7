#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Writes a `trainyard-timeline/1` file, so that reading it gives an equal timeline. A timeline does not say where each
/// op ran, so the placement is given beside it.
///
/// A transfer that a broadcast carried to several devices has "also_to"; a device has "out_of_memory" where it held too
/// much; "links" has one row per serialized resource, with "from" and "to" where it is one direction of a link.
/// Throws InputError as check_sizes() and check_transfers() do, and for tensors and ops of what is held that the
/// problem does not have ("unknown-tensor", "unknown-op").
void write_timeline(const Timeline& timeline, const Problem& problem, const Placement& placement, std::ostream& out);

/// Reads a `trainyard-timeline/1` file of the problem ("-" is standard input). Every op must stand in it once. Fills
/// `placement` where it is not null. Throws InputError with positions, as read_schedule does.
Timeline read_timeline(const std::filesystem::path& path, const Problem& problem, Placement* placement = nullptr);
/// Reads a text; `name` is the file in messages.
Timeline parse_timeline(std::string_view text, const std::string& name, const Problem& problem,
                        Placement* placement = nullptr);

}  // namespace trainyard
