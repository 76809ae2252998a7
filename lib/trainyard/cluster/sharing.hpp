#pragma once

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// All links share alike: fair ones have no gap, and no bus makes transfers wait that never meet.
inline void share_links(ClusterSpec& spec, Sharing sharing) {
  if (spec.fabric) spec.fabric->sharing = sharing;
  for (Link& link : spec.links) {
    link.sharing = sharing;
    if (sharing == Sharing::fair) link.gap = Nanoseconds{0};  // between turns, which nobody takes
    if (sharing == Sharing::none) link.bus.clear();
  }
}

}  // namespace trainyard
