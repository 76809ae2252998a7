#pragma once

#include <iosfwd>

#include "trainyard/study/run.hpp"

namespace trainyard {

// A run as CSV tables (RFC 4180) with a line of titles; times in nanoseconds, sizes in bytes. If the schedule has
// rewrites, ops and tensors are those of the rewritten graph. All functions throw InputError ("size") if the run keeps
// no timeline (CompareOptions::keep_runs); write_transfers_csv() and write_memory_csv() also as check_transfers() does.

/// Columns op, type, phase, layer, device, start_ns, end_ns, source (cost/evidence.hpp): a line per op, in graph order.
void write_ops_csv(const Run& run, std::ostream& out);
/// Columns tensor, bytes, from, to, ready_ns, start_ns, end_ns: a line per transfer and receiver.
void write_transfers_csv(const Run& run, std::ostream& out);
/// Columns link, from, to, busy_ns, bytes: a line for each direction of a link that carried data.
void write_links_csv(const Run& run, std::ostream& out);
/// Columns device, at_ns, held_bytes: a line for each change of a device's memory use (memory_curves()).
void write_memory_csv(const Run& run, std::ostream& out);

}  // namespace trainyard
