#pragma once

#include <iosfwd>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

struct TraceOptions {
  /// The dependencies that are drawn as arrows. All of them are readable on small graphs only.
  enum class Flows { critical, all, none } flows = Flows::critical;
};

/// Writes the timeline as Chrome trace events (JSON, object form), for https://ui.perfetto.dev and chrome://tracing.
///
/// Devices are processes by id, with one thread (tid 0): their ops. Process `device_count()` holds the links, one
/// thread per channel; a transfer over several channels is on each of them. Transfers that hold no channel may
/// overlap: they are spread over further threads of that process. So slices of one thread never overlap. `ts` and `dur`
/// are microseconds from the start of the step with exactly three decimals, that is whole nanoseconds. Ops and
/// transfers of zero duration are instant events. Counters: memory held per device, bytes per second per channel.
/// An arrow that would begin or end at something of zero duration is left out, since there is no slice to bind it to.
/// Throws InputError as check_sizes() and check_transfers() do.
void write_trace(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                 const TraceOptions& options, std::ostream& out);

}  // namespace trainyard
