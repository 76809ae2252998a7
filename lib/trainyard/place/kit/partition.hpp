#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// One element of a chain that is cut into runs: bytes that add up over a run, and bytes of which the largest counts.
struct PartitionItem {
  Bytes held, transient;
};

/// Who takes a run: its time for each item, and its capacity (none: unlimited).
struct PartitionBin {
  std::optional<Bytes> capacity = {};
  std::vector<Nanoseconds> times = {};
};

/// Cuts the chain into one run (maybe empty) for each bin, in the bins' order, such that no run is beyond its capacity
/// and the longest run takes the least time; where capacities cannot be kept, such that the largest excess is least.
/// Returns the bin of each item. O(bins x items x log items) by dynamic programming: load grows with the run.
/// Among equals, a bin's run begins where the largest load of the bins before it comes to its own, or an item earlier.
/// Throws InputError ("size") for items without a bin, or a bin without a time for each.
std::vector<std::size_t> partition_chain(const std::vector<PartitionItem>& items,
                                         const std::vector<PartitionBin>& bins);

}  // namespace trainyard
