#pragma once

#include <cstdint>
#include <tuple>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::detail {

/// `holding.bytes` are held in [from, until).
struct Held {
  Nanoseconds from, until;
  Holding holding;
  std::uint32_t transfer = 0;  // arrived: the one that brought it, an index into Timeline::transfers

  /// The order in which holdings of one instant are taken.
  std::tuple<Nanoseconds, bool, std::uint32_t, OpId, Holding::Kind, TensorId> taking_order() const {
    return {from, holding.kind == Holding::Kind::arrived, transfer, holding.op, holding.kind, holding.tensor};
  }
};

/// All holdings of a run by the rules of simulate(), by device, but for parameters and state.
CompressedRows<DeviceId, Held> find_holdings(const Problem& problem, const Placement& placement,
                                             const Timeline& timeline);

}  // namespace trainyard::detail
