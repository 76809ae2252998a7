#pragma once

#include <iosfwd>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

struct TraceOptions {
  /// The dependencies drawn as arrows. `all` is readable for small graphs only.
  enum class Flows { critical, all, none } flows = Flows::critical;
};

/// Writes the timeline as Chrome trace events (JSON, object form), for https://ui.perfetto.dev and chrome://tracing.
///
/// A device is a process whose pid is its id, with one thread (tid 0) that holds its ops. Process `device_count()`
/// holds the links, with one thread per channel; a transfer over several channels is shown on each. Transfers that hold
/// no channel may overlap, so they are spread over further threads of that process. Slices of one thread therefore
/// never overlap. `ts` and `dur` are microseconds from the start of the step with exactly three decimals, that is whole
/// nanoseconds. Ops and transfers of zero duration are instant events. Counters show the memory held per device and the
/// bytes per second per channel. Arrows from or to an event of zero duration are left out, since no slice exists to
/// bind them to. Throws InputError as check_sizes() and check_transfers() do.
void write_trace(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                 const TraceOptions& options, std::ostream& out);

}  // namespace trainyard
