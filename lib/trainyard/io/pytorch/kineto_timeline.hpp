#pragma once

#include <iosfwd>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// One device's part of a run as a trace of Kineto, which Holistic Trace Analysis reads (a file a rank, *.json or
/// *.json.gz in one folder). An op that takes time is an event of the host, a launch and a kernel on stream 7; a
/// transfer to or from the device an ncclDevKernel_SendRecv on the first stream from 20 on that is free, launched by a
/// thread of its own. Kernels start 1 us after the host begins to launch them, which never waits. ProfilerStep#0 is the
/// run; an empty ProfilerStep#1 ends the file, since that program leaves out what the last step launches. Microseconds
/// with three decimals: every nanosecond.
void write_kineto(const Problem& problem, const Placement& placement, const Timeline& timeline, DeviceId rank,
                  std::ostream& out);

}  // namespace trainyard
