#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// A tensor that can leave the device that made it between the forward and the backward pass. Positions are indices of
/// the ops that take time on that device, by their starts.
struct Offloadable {
  TensorId tensor;
  DeviceId device;
  Bytes bytes;
  std::size_t last_forward, first_backward;  // it can be away between these positions, both excluded
  Nanoseconds idle;                          // time between the two
};

/// Plans offloading for the run of a placement that exceeds memory. Each device keeps the order in which it ran its
/// ops, so the bytes that it holds while op i runs are known, except for the times of transfers:
///
///     held(i)  =  M(i)  -  sum of the bytes of the tensors with  b <= i <= e,     M(i): without offloading
///
/// Op b waits until the tensor is away, and the tensor comes back after op e. plan() finds b and e such that held(i) is
/// within the capacity for all i. Transfers have more time if fewer ops wait for them and if they may come back
/// earlier, so each b is as late and each e as early as the others allow:
///
///   * upwards, while i holds too much, tensors leave in the order in which they were made, which is that of the link;
///   * downwards, while i holds too much, the leaving tensors that are read last stay away. A tensor that never
///     needs to stay away does not leave.
///
/// Both orders suit a chain of layers, whose tensors form a stack. O. Beaumont, L. Eyraud-Dubois and A. Shilova look
/// for the same order (Optimal GPU-CPU offloading strategies for deep neural network training. Euro-Par 2020). Memory
/// that arrives from other devices is taken as in the given run.
class OffloadPlan {
 public:
  /// `timeline` is the run of the placement. All three must outlive the object.
  OffloadPlan(const Problem& problem, const Placement& placement, const Timeline& timeline);

  /// Tensors that may leave: those on devices with a capacity that are not of class cpu; by device, then in the order
  /// in which they were made.
  const std::vector<Offloadable>& tensors() const { return tensors_; }

  /// Tensors that leave, by when they are needed again.
  struct Leaving {
    std::vector<std::size_t> tensors;  // indices into tensors()
    std::vector<Offload> rewrites;     // one per tensor
  };
  /// A plan in which only `allowed` tensors (indexed as tensors()) leave; nothing if there is none. `less`: by device,
  /// bytes of its capacity that must stay free.
  std::optional<Leaving> plan(const std::vector<bool>& allowed, const IdMap<DeviceId, Bytes>& less) const;

  /// How far a device exceeds its capacity, and the op running then.
  struct Excess {
    DeviceId device;
    std::string op;
    Bytes bytes;
  };
  /// The largest excess with all of tensors() away whenever they can be; nothing if all devices fit.
  std::optional<Excess> excess() const;

  /// A schedule of the rewritten problem: each device in the order of the run, the new ops on `hosts` by device.
  Schedule schedule(const Problem& rewritten, const Leaving& leaving, const IdMap<DeviceId, DeviceId>& hosts) const;

 private:
  /// The ops of a device that take time, by their starts.
  struct Lane {
    std::vector<OpId> ops;
    std::vector<std::int64_t> held;   // M, by position
    std::size_t first = 0, last = 0;  // its range of tensors_
  };
  struct Stay {
    std::size_t from, until;  // b, e
  };
  std::size_t first_after(const Lane& lane, Nanoseconds time) const;
  std::size_t begun_before(const Lane& lane, Nanoseconds time) const;
  void find_held();
  void find_tensors(DeviceId device);
  std::optional<std::vector<std::pair<std::size_t, Stay>>> stays(const Lane& lane, std::int64_t capacity,
                                                                 const std::vector<bool>& allowed) const;

  const Problem& problem_;
  const Placement& placement_;
  const Timeline& timeline_;
  std::vector<OpId> by_start_;
  IdMap<TensorId, Nanoseconds> sent_;  // the end of the last transfer
  IdMap<DeviceId, Lane> lanes_;
  std::vector<Offloadable> tensors_;
};

}  // namespace trainyard
