#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// One element of a chain that is cut into runs. Of a run, `held` is summed, and only the largest `transient` counts.
struct PartitionItem {
  Bytes held, transient;
};

/// A taker of one run: its time for each item, and its capacity (none: unlimited).
struct PartitionBin {
  std::optional<Bytes> capacity = {};
  std::vector<Nanoseconds> times = {};
};

/// Cuts the chain into one contiguous run (maybe empty) for each bin, in the bins' order, and returns the bin of each
/// item. Minimizes the largest excess over the capacities first, which is 0 if all can be kept, then the longest time
/// of a run. Dynamic programming in O(bins x items x log items), since a run's load grows with its length. Among
/// equals, a bin's run begins where the largest load of the earlier bins reaches its own, or one item earlier. Throws
/// InputError ("size") for items without a bin, or a bin without a time for each item.
std::vector<std::size_t> partition_chain(const std::vector<PartitionItem>& items,
                                         const std::vector<PartitionBin>& bins);

}  // namespace trainyard
