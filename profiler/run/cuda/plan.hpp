#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::cuda {

/// A place in a device's single allocation.
struct BufferPlace {
  DeviceId device;
  Bytes offset, bytes;

  friend bool operator==(const BufferPlace&, const BufferPlace&) = default;
};

/// One op, or one transfer to one device.
struct PlanItem {
  bool is_transfer = false;
  OpId op;          // of a transfer: the producer
  TensorId tensor;  // of a transfer
  DeviceId from, to;
  std::uint32_t stream = 0;
  bool before_step = false;          // an input, done before the step's time begins
  std::vector<std::uint32_t> waits;  // items of other streams that must have ended; earlier ones, ascending
  std::vector<BufferPlace> reads, writes;
  Span predicted;
};

/// A schedule as work for streams: one compute stream per device (stream i is device i's), and one stream per
/// serialized link. The items of a stream run in this order, and every item waits only for earlier ones. Issuing them
/// in order thus records each event before it is waited for; CUDA silently ignores a wait on an event that was never
/// recorded.
struct ExecutionPlan {
  std::vector<PlanItem> items;
  std::vector<DeviceId> stream_device;  // home of each stream: its device, or the link's source
  IdMap<DeviceId, Bytes> arena;         // bytes to allocate: parameters and state, then tensors by lifetime
  IdMap<DeviceId, Bytes> predicted_peak;
};

/// Plans items in the order of their simulated starts. A transfer runs on the stream of the first serialized resource
/// of its route, and waits for the last transfer of each other one, so that a shared bus stays shared.
///
/// Tensors are placed into one allocation per device by their simulated lifetimes (first fit, 256-byte alignment).
/// Since a run may deviate from the simulated times, the first item that writes a place waits for all earlier users of
/// it.
///
/// `bytes`: a tensor's size if larger than in the graph; may be empty.
ExecutionPlan make_plan(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                        const IdMap<TensorId, Bytes>& bytes = {});

}  // namespace trainyard::cuda
