#pragma once

#include <cstddef>

namespace trainyard::learned {

/// Limits of the groups that ops are merged into before they are placed (rewrite/merge_colocate.hpp).
struct Grouping {
  std::size_t most = 128;  // groups
  /// Limit on a group's run time, as a multiple of an even share of the total; 0: no limit, as published, which leaves
  /// most of the run time of Inception-v3 in one group.
  double heaviest = 2;

  friend bool operator==(const Grouping&, const Grouping&) = default;
};

}  // namespace trainyard::learned
