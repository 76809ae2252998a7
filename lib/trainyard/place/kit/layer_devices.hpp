#pragma once

#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

using LayerDevices = IdMap<LayerId, DeviceId>;

/// The devices worth using for layers, by ascending id; never empty. Devices that are more than 4 times slower than the
/// best are left out, as are those that cannot run half of the work.
std::vector<DeviceId> worthy_devices(const Problem& problem);

/// Total time of the ops on the device; an op that it cannot run counts with its shortest duration.
Nanoseconds layer_time(const Problem& problem, const std::vector<OpId>& ops, DeviceId device);

/// Places every colocation group on the device of its first op's layer; if it cannot run there, on the device where it
/// runs fastest. `excess`: the bytes beyond the capacities in `memory`'s account, summed over devices.
struct LayerPlacement {
  Placement placement;
  Bytes excess;
};
LayerPlacement place_layers(const Problem& problem, const Layers& layers, const LayerDevices& devices,
                            MemoryLedger memory);

}  // namespace trainyard
