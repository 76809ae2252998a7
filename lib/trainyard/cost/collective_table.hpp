#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/graph/collective_task.hpp"

namespace trainyard {

/// Measured time of a collective at one size (S of CollectiveKind).
struct CollectivePoint {
  Bytes bytes;
  Nanoseconds time;

  friend bool operator==(const CollectivePoint&, const CollectivePoint&) = default;
};

/// Measured times of one collective for a number of ranks, spread evenly over nodes.
struct CollectiveTable {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::size_t ranks = 2, nodes = 1;     // at least 2 ranks; nodes divides ranks
  std::vector<CollectivePoint> points;  // at least one, by ascending size, each size once
  std::string source = {};

  friend bool operator==(const CollectiveTable&, const CollectiveTable&) = default;
};

/// The time of S bytes from a table:
///
///     between two sizes   linear interpolation; a table of two sizes gives t = a + S / b
///     above the last      extrapolation of the last line
///     below the first     extrapolation of the first line, but at least the smaller of the first time and NCCL's
///                         latency (nccl_latency, with NVLink)
///     one size only       the line through it and NCCL's latency at 0 bytes
///
/// Lines never fall: if the larger size took less time, the line is level at that time. The functions here throw
/// InputError ("collective") for a table without points or nodes, with fewer than two ranks, or with points out of
/// order.
Nanoseconds collective_time(const CollectiveTable& table, Bytes bytes);

/// Transfers a table to another number of ranks or nodes, or to another collective. Its latency a (the first line at 0
/// bytes, at least NCCL's latency L) scales with NCCL's latency, and the rest of its time with f = bus_factor():
///
///     t'(S) = a L' / L + (t(S) - a) f' / f
///
/// The result for one rank is 0.
Nanoseconds collective_time(const CollectiveTable& table, CollectiveKind kind, std::size_t ranks, std::size_t nodes,
                            Bytes bytes);

struct CollectiveTime {
  Nanoseconds time;
  Evidence evidence;  // interpolated within the sizes of a table of this kind, ranks and nodes; else transferred
};

/// A collective's time from the nearest table. Single-node collectives take tables of one node, others tables of
/// several. The nearest table is of the same kind if there is one, else of all-reduces; then the one with the nearest
/// ratio of ranks; then with the same nodes; then the first. Nothing if no table applies. 0 for one rank or 0 bytes.
std::optional<CollectiveTime> measured_collective(const std::vector<CollectiveTable>& tables, CollectiveKind kind,
                                                  std::size_t ranks, std::size_t nodes, Bytes bytes);

}  // namespace trainyard
