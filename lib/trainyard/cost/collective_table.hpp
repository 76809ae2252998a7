#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/cost/nccl_model.hpp"

namespace trainyard {

/// A collective's time as measured at one size (S of CollectiveKind).
struct CollectivePoint {
  Bytes bytes;
  Nanoseconds time;

  friend bool operator==(const CollectivePoint&, const CollectivePoint&) = default;
};

/// Measured times of one collective of so many ranks, over equal nodes.
struct CollectiveTable {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::size_t ranks = 2, nodes = 1;     // at least 2; divides the ranks
  std::vector<CollectivePoint> points;  // at least one, by ascending size
  std::string source = {};

  friend bool operator==(const CollectiveTable&, const CollectiveTable&) = default;
};

/// The time of S bytes from a table:
///
///     between two sizes   the line through them; with two sizes, t = a + S / b
///     above the last      its line goes on
///     below the first     its line goes on, down to NCCL's latency (nccl_latency, of NVLink) or the first time
///     one size alone      the line from NCCL's latency at no bytes through it
///
/// A line never falls: where the larger size took less time, it is level. Throws InputError ("collective"), as the
/// others here do, for a table without points, nodes or two ranks.
Nanoseconds collective_time(const CollectiveTable& table, Bytes bytes);

/// A table for n' ranks over other nodes, or for another collective, from that of n ranks: the latency a (what
/// the first line has at no bytes, NCCL's at the least) by the ratio of NCCL's latencies, what is above it by that of
/// bus_factor():
///
///     t'(S) = a L' / L + (t(S) - a) f' / f
///
/// One rank takes no time.
Nanoseconds collective_time(const CollectiveTable& table, CollectiveKind kind, std::size_t ranks, std::size_t nodes,
                            Bytes bytes);

struct CollectiveTime {
  Nanoseconds time;
  Evidence evidence;  // interpolated within a table of these ranks and nodes; else transferred
};

/// A collective's time from the table of its kind, ranks and nodes; else from the nearest of those that stay in a node,
/// or of those that leave it, as the ranks do: first by collective (all-reduces stand in for others), then by the ratio
/// of ranks, then as listed. Nothing where there is none. One rank takes no time.
std::optional<CollectiveTime> measured_collective(const std::vector<CollectiveTable>& tables, CollectiveKind kind,
                                                  std::size_t ranks, std::size_t nodes, Bytes bytes);

}  // namespace trainyard
