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
  bool activations = true;          // count activations and gradients that cross between stages
  bool memory = false;              // limit a stage's batches in flight by the memory of the smallest device
  std::function<bool()> stop = {};  // polled throughout: throws OutOfTime
};

/// The stages of PipeDream's partitioner, one after the other on the devices. They are not replicated, since an op of
/// the graph cannot be on several devices at once. The layers are those of find_layers(), with their times on the first
/// of worthy_devices(). Layers that pass activations in a cycle (an unrolled decoder and its attention) count as one.
/// The network's bandwidth is that of the slowest route from a device to the next. If there are more than 2,000 layers,
/// or places to cut them, they form a chain in topological order, with neighbours joined until there are at most 2,000.
/// Devices may stay unused. The objective is the time per batch of a full pipeline, not that of one step. Throws
/// InputError "no-partition" if memory counts and nothing fits.
Schedule place_pipedream(const Problem& problem, const PipedreamPlacerOptions& options = {});

/// The stages alone: for each layer, the position of its device in `devices`.
std::vector<std::size_t> pipedream_stages(const Problem& problem, const Layers& layers,
                                          const std::vector<DeviceId>& devices,
                                          const PipedreamPlacerOptions& options = {});

/// The layers as a profile, with times on one device. `member` is the profiled layer that each layer is part of.
struct ProfiledProblem {
  LayerProfile profile;
  IdMap<LayerId, std::size_t> member;
};
ProfiledProblem profile_of(const Problem& problem, const Layers& layers, DeviceId device);

}  // namespace trainyard
