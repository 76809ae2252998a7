#pragma once

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// Gives all links the same sharing. Fair links lose their gap, and unshared links their bus.
inline void share_links(ClusterSpec& spec, Sharing sharing) {
  if (spec.fabric) spec.fabric->sharing = sharing;
  for (Link& link : spec.links) {
    link.sharing = sharing;
    if (sharing == Sharing::fair) link.gap = Nanoseconds{0};  // a gap separates turns, and fair links have none
    if (sharing == Sharing::none) link.bus.clear();
  }
}

}  // namespace trainyard
