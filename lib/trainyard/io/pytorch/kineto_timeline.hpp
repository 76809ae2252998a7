#pragma once

#include <iosfwd>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Writes one device's part of a run as a Kineto trace, which Holistic Trace Analysis reads (one file per rank, *.json
/// or *.json.gz in one folder). An op with a duration becomes an event of the host, a launch, and a kernel on stream 7.
/// A transfer to or from the device becomes an ncclDevKernel_SendRecv on the first free stream from 20 on, launched by
/// a thread of its own. Kernels start 1 us after the host begins to launch them; the host never waits. ProfilerStep#0
/// is the run. An empty ProfilerStep#1 ends the file, because that program ignores launches of the last step. Times are
/// microseconds with three decimals, which represent every nanosecond exactly.
void write_kineto(const Problem& problem, const Placement& placement, const Timeline& timeline, DeviceId rank,
                  std::ostream& out);

}  // namespace trainyard
