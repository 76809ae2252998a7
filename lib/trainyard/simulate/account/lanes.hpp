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

/// A row of a drawing of the timeline: the tasks of one serial resource, or some of those of a fair channel. Spans of
/// one lane never overlap.
struct Lane {
  enum class Kind : std::uint8_t {
    device,   // the ops of a device
    channel,  // the transfers of a channel; one over several channels is on a lane of each. A fair channel has as many
              // lanes as transfers at once, at least one
    free,     // transfers from one device that held no channel: as many lanes as run at once
  };
  Kind kind;
  DeviceId device;                    // device: itself; free: the sender
  ChannelId channel;                  // channel
  std::string name;                   // for people: "gpu0", "gpu0 → gpu1  nvlink-0-1", "from gpu0, unshared"
  std::vector<std::size_t> spans;     // op indices, or indices into Timeline::transfers; by start
  std::vector<std::size_t> instants;  // those of zero duration, by time, then index
};

/// Devices in the order of their ids, then channels in the order of theirs, then free lanes by sender. A lane may be
/// empty. Where transfers overlap, each takes the first lane that is free, by (start, index).
std::vector<Lane> lanes(const Problem& problem, const Placement& placement, const Timeline& timeline);

}  // namespace trainyard
