#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Start and end of one op.
struct Span {
  Nanoseconds start, end;

  friend bool operator==(const Span&, const Span&) = default;
};

/// The transfer of one tensor from the device that produced it to one that needs it (or, on a broadcasting egress, to
/// several). Or the part of a member in a collective: the tensor that the member makes, with `to` its own device,
/// `from` the device before it in the ring, and `bytes` what each device sends.
struct Transfer {
  TensorId tensor;
  DeviceId from, to;
  Bytes bytes;
  Nanoseconds ready, start, end;
  std::vector<DeviceId> also_to = {};  // broadcast: the other devices served, ascending; `to` is the lowest of all

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Bytes held on a device at its memory peak, and their purpose.
struct Holding {
  enum class Kind : std::uint8_t { resident, produced, arrived, workspace };
  Kind kind;
  OpId op;          // resident, workspace: the op itself; produced, arrived: the producer
  TensorId tensor;  // produced, arrived
  Bytes bytes;

  friend bool operator==(const Holding&, const Holding&) = default;
};

/// The moment at which a device first exceeds its memory capacity.
struct OutOfMemory {
  Nanoseconds at;
  OpId op;                              // the op whose start exceeds the capacity; none: a transfer or resident memory
  std::optional<std::size_t> transfer;  // index into Timeline::transfers
  Bytes over;                           // peak minus capacity
  Bytes resident, produced, arrived, workspace;  // the parts of the peak
  std::vector<Holding> largest;                  // the largest holdings at the peak, at most 5, largest first

  friend bool operator==(const OutOfMemory&, const OutOfMemory&) = default;
};

struct DeviceUse {
  Nanoseconds busy;  // sum of its ops' durations
  /// Time during which the device is idle while a transfer to or from it is in flight.
  Nanoseconds exposed_communication;
  Bytes peak;
  Nanoseconds peak_at;  // first time at which the peak is reached
  std::optional<OutOfMemory> out_of_memory = {};

  friend bool operator==(const DeviceUse&, const DeviceUse&) = default;
};

struct ChannelUse {
  Nanoseconds busy;
  Bytes bytes;

  friend bool operator==(const ChannelUse&, const ChannelUse&) = default;
};

/// The result of a simulation.
struct Timeline {
  Nanoseconds makespan = {};  // end of the last op
  IdMap<OpId, Span> ops = {};
  std::vector<Transfer> transfers = {};  // by (producer, tensor, destination)
  IdMap<DeviceId, DeviceUse> devices = {};
  IdMap<ChannelId, ChannelUse> channels = {};

  /// Whether no device is out of memory.
  bool fits() const {
    for (const auto& device : devices)
      if (device.out_of_memory) return false;
    return true;
  }

  friend bool operator==(const Timeline&, const Timeline&) = default;
};

}  // namespace trainyard
