#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// A row in a drawing of the timeline: tasks of one device or channel. Spans of one lane never overlap.
struct Lane {
  enum class Kind : std::uint8_t {
    device,   // the ops of a device
    channel,  // transfers of a channel; one over several channels is on a lane of each. A channel has as many lanes as
              // concurrent transfers, at least one
    free,     // transfers from one device over no channel: as many lanes as concurrent transfers
  };
  Kind kind;
  DeviceId device;                    // device: the device itself; free: the sender
  ChannelId channel;                  // channel
  std::string name;                   // display name: "gpu0", "gpu0 → gpu1  nvlink-0-1", "from gpu0, unshared"
  std::vector<std::size_t> spans;     // op indices, or indices into Timeline::transfers; by start
  std::vector<std::size_t> instants;  // tasks of zero duration, by time, then index
};

/// Lanes of devices by id, then those of channels by id, then free lanes by sender. A lane may be empty. Overlapping
/// transfers take the first lane that is free, in the order of (start, index).
std::vector<Lane> lanes(const Problem& problem, const Placement& placement, const Timeline& timeline);

}  // namespace trainyard
