#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"

namespace trainyard::test {

/// Calls `each` with every assignment of one of `devices` devices to each of `things` things.
template <class Each>
void for_each_assignment(std::size_t things, std::size_t devices, const Each& each) {
  std::vector<DeviceId> chosen(things, DeviceId{0});
  while (true) {
    each(chosen);
    std::size_t i = 0;
    for (; i < things; ++i) {  // counts up in base `devices`
      chosen[i] = DeviceId{(chosen[i].index() + 1) % devices};
      if (chosen[i].index() != 0) break;
    }
    if (i == things) return;
  }
}

}  // namespace trainyard::test
