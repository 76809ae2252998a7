#pragma once

#include <iosfwd>

#include "trainyard/study/run.hpp"

namespace trainyard {

// A run as tables (RFC 4180), a line of titles first; times in nanoseconds, sizes in bytes. Of the rewritten graph
// where the schedule has rewrites. Throw InputError ("size") where the run keeps no timeline
// (CompareOptions::keep_runs), and those that read transfers as check_transfers() does.

/// op, type, phase, layer, device, start_ns, end_ns, source (cost/evidence.hpp): a line an op, in the graph's order.
void write_ops_csv(const Run& run, std::ostream& out);
/// tensor, bytes, from, to, ready_ns, start_ns, end_ns: a line a transfer and receiver.
void write_transfers_csv(const Run& run, std::ostream& out);
/// link, from, to, busy_ns, bytes: a line a direction of each link that carried something.
void write_links_csv(const Run& run, std::ostream& out);
/// device, at_ns, held_bytes: a line whenever what a device holds changes (memory_curves()).
void write_memory_csv(const Run& run, std::ostream& out);

}  // namespace trainyard
