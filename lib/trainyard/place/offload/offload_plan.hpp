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

/// A tensor that can leave the device that made it between the forward and the backward pass. Positions are those of
/// the ops that take time on that device, by their starts.
struct Offloadable {
  TensorId tensor;
  DeviceId device;
  Bytes bytes;
  std::size_t last_forward, first_backward;  // positions: it can be away in between, both excluded
  Nanoseconds idle;                          // the time from the one to the other
};

/// What offloading can do for a run of a placement that holds too much: each device keeps the order in which it ran its
/// ops, so what it holds while an op runs is known but for the times of transfers:
///
///     held(i)  =  M(i)  -  sum of the bytes of the tensors with  b <= i <= e,     M(i): without offloading
///
/// where op b waits until the tensor is away, and it comes back after op e. plan() finds b and e with held(i) within
/// the capacity for all i. Transfers have the more time the fewer wait for them and the earlier they may come back, so
/// each b is as late and each e as early as the others let it be:
///
///   * upwards, where i holds too much, tensors go in the order in which they were made, which is that of the link;
///   * downwards, where i holds too much, of those tensors the ones that are read last stay away, and what is never
///     needed to stay away does not leave.
///
/// Both hold for a chain of layers, a stack, for which O. Beaumont, L. Eyraud-Dubois and A. Shilova look for the same
/// order (Optimal GPU-CPU offloading strategies for deep neural network training. Euro-Par 2020). Memory that arrives
/// from other devices is taken as in the run at hand.
class OffloadPlan {
 public:
  /// `timeline`: the placement's run. All three must outlive it.
  OffloadPlan(const Problem& problem, const Placement& placement, const Timeline& timeline);

  /// Tensors on devices with a capacity that are not of class cpu; by device, then in the order in which they were
  /// made.
  const std::vector<Offloadable>& tensors() const { return tensors_; }

  /// What leaves, by when it is needed again.
  struct Leaving {
    std::vector<std::size_t> tensors;  // of tensors()
    std::vector<Offload> rewrites;     // one for each
  };
  /// A plan by which only `allowed` tensors (as tensors()) leave; nothing if it does not come out. `less`: by device,
  /// bytes of its capacity that are not to be counted on.
  std::optional<Leaving> plan(const std::vector<bool>& allowed, const IdMap<DeviceId, Bytes>& less) const;

  /// By how much the device is beyond its capacity with all of tensors() away wherever they can be, and the op then
  /// running; nothing where it fits.
  struct Excess {
    DeviceId device;
    std::string op;
    Bytes bytes;
  };
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
