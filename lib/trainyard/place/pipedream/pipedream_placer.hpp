#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/pipedream/layer_profile.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct PipedreamPlacerOptions {
  bool activations = true;          // activations and gradients that cross between stages count
  bool memory = false;              // so does what a stage keeps for batches in flight, on the smallest of the devices
  std::function<bool()> stop = {};  // asked all the time: throws OutOfTime
};

/// The stages of PipeDream's partitioner without replication, one after the other on the devices: what it makes of a
/// graph whose ops cannot be on several devices at once. The layers are those of find_layers(), with their times on the
/// first of worthy_devices(); what hands activations in a circle (an unrolled decoder and its attention) is one layer.
/// The network is the slowest of the routes from each device to the next. Where there are more than 2,000 layers, or
/// places to cut them, they are cut as a chain of 2,000 at most, in topological order, as many layers joined as that
/// takes. Devices may stay unused. It minimises the time per batch of a full pipeline, not that of one step. Throws
/// InputError ("no-partition") where memory counts and nothing fits.
Schedule place_pipedream(const Problem& problem, const PipedreamPlacerOptions& options = {});

/// The stages alone: of each layer its device's position in `devices`.
std::vector<std::size_t> pipedream_stages(const Problem& problem, const Layers& layers,
                                          const std::vector<DeviceId>& devices,
                                          const PipedreamPlacerOptions& options = {});

/// The layers as a profile, times on that device; `member` names for each layer the profiled one that it is part of.
struct ProfiledProblem {
  LayerProfile profile;
  IdMap<LayerId, std::size_t> member;
};
ProfiledProblem profile_of(const Problem& problem, const Layers& layers, DeviceId device);

}  // namespace trainyard
