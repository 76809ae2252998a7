#pragma once

#include <cstdint>
#include <tuple>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::detail {

/// A holding whose bytes are held in [from, until).
struct Held {
  Nanoseconds from, until;
  Holding holding;
  std::uint32_t transfer = 0;  // arrived: index into Timeline::transfers of the transfer that brought it

  /// Sort key: the order in which holdings of one instant take memory.
  std::tuple<Nanoseconds, bool, std::uint32_t, OpId, Holding::Kind, TensorId> taking_order() const {
    return {from, holding.kind == Holding::Kind::arrived, transfer, holding.op, holding.kind, holding.tensor};
  }
};

/// All holdings of a run by device, by the rules of simulate(), except parameters and state.
CompressedRows<DeviceId, Held> find_holdings(const Problem& problem, const Placement& placement,
                                             const Timeline& timeline);

}  // namespace trainyard::detail
