#pragma once

#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

using LayerDevices = IdMap<LayerId, DeviceId>;

/// The devices worth using for layers: all but those much slower than the best (4 times and more), or unable to run
/// half of the work; by ascending id, never empty.
std::vector<DeviceId> worthy_devices(const Problem& problem);

/// Time of the ops on the device, one after the other; one that it cannot run counts its shortest duration.
Nanoseconds layer_time(const Problem& problem, const std::vector<OpId>& ops, DeviceId device);

/// Every colocation group where the layer of its first op is, or, where it cannot run there, where it runs fastest.
/// `excess`: by how much devices are beyond their capacities, all together.
struct LayerPlacement {
  Placement placement;
  Bytes excess;
};
LayerPlacement place_layers(const Problem& problem, const Layers& layers, const LayerDevices& devices,
                            MemoryLedger memory);

}  // namespace trainyard
