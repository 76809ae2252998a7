#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/place/baechi/m_edges.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The transfers of Baechi's plan, by the equations of m_event_loop.hpp.
class BaechiChannels {
 public:
  BaechiChannels(const Problem& problem, const OpEdges& edges);

  /// A remembered result of ready(), which is computed again only after a channel that it depends on has moved.
  struct Estimate {
    Nanoseconds ready{-1};  // -1: not computed
    std::int64_t stamp = 0;
    bool settled = false;  // depends on no channel
  };
  /// The time by which all inputs of the op could be on the device. All ops that it depends on must have ended.
  Nanoseconds ready(OpId op, DeviceId device, const Placement& placement, const IdMap<OpId, Nanoseconds>& end,
                    Estimate& estimate) const;
  /// Sends the missing inputs, one tensor after the other. Returns the time at which all inputs are there.
  Nanoseconds send(OpId op, DeviceId device, const Placement& placement, const IdMap<OpId, Nanoseconds>& end);

 private:
  static constexpr std::uint32_t kNoArrival = ~std::uint32_t{0};
  struct Arrival {
    DeviceId device;
    Nanoseconds at;
    std::uint32_t next;
  };

  /// The time at which the tensor arrived on the device; -1 if it has not been sent there.
  Nanoseconds arrival(TensorId tensor, DeviceId device) const;
  bool holds(const Estimate& estimate, OpId op, DeviceId device, const Placement& placement) const;

  const Problem& problem_;
  const OpEdges& edges_;
  IdMap<DeviceId, Nanoseconds> free_{problem_.device_count()};
  IdMap<DeviceId, std::int64_t> moved_{problem_.device_count()};  // sends_ at its last transfer
  std::int64_t sends_ = 0;
  IdMap<TensorId, std::uint32_t> first_arrival_{problem_.graph().tensor_count(), kNoArrival};
  std::vector<Arrival> arrivals_;
};

}  // namespace trainyard
