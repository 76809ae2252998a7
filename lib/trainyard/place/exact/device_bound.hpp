#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/exact/model.hpp"

namespace trainyard::detail {

/// Heads and tails of each op on each device that it may still be on, in a placement that is not complete yet:
///
///     head(i, d) >= min over d' of head(u, d') + p(u, d') + (d' != d) c(u, i, d', d)     each direct predecessor u of
///     i, head(i, d) >= the least k by which device d can have run, one after the other, all predecessors u of i that
///                   could not have sent from any other device by k,
///
/// and the tails backwards in time. Proof: as chains_with_transfers (bound/chains.hpp), with op i on d given. A device
/// with head + p + tail >= limit is one that no schedule below the limit has for the op; so it is dropped for all its
/// group, and heads and tails are made again, a few times.
class DeviceBound {
 public:
  explicit DeviceBound(const ExactModel& model);

  /// Small enough: it goes through all pairs of devices for each edge.
  static bool worthwhile(const ExactModel& model) { return model.ops * model.devices * model.devices <= 200'000; }

  /// The largest over ops of the least over devices of head + p + tail, at least `limit` where some op has no device
  /// left. `device` by op, kUnplaced where it is open.
  std::int64_t operator()(const std::vector<std::uint32_t>& device, std::int64_t limit);

  /// The device, after a result below the limit, where the op must be, kUnplaced where several devices are left; and
  /// what holds on all that are left.
  std::uint32_t device(std::size_t op) const { return decided_[op]; }
  std::int64_t head(std::size_t op) const { return least_head_[op]; }
  std::int64_t tail(std::size_t op) const { return least_tail_[op]; }
  std::int64_t time(std::size_t op) const { return least_time_[op]; }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

  struct Neighbor {
    std::int64_t release, duration;  // on the op's own device; kNever where it cannot be there
    std::int64_t remote;             // when its tensors are here from another device, at the earliest
    std::int64_t end() const { return release == kNever ? kNever : release + duration; }
  };

  std::int64_t longest(const std::vector<ExactModel::Input>& edges, std::size_t op, std::size_t device, bool before,
                       const std::vector<std::int64_t>& release);
  std::int64_t join(std::int64_t gap);
  bool drop(std::int64_t limit, std::int64_t& bound);

  const ExactModel& model_;
  std::vector<std::uint32_t> group_;                // of an op
  std::vector<bool> joins_inputs_, joins_outputs_;  // of an op: whether join() holds for them
  std::vector<std::vector<std::uint32_t>> left_;    // devices of an op, ascending
  std::vector<std::int64_t> head_, tail_;           // op x device; of devices that are left
  std::vector<std::int64_t> least_head_, least_tail_, least_time_;
  std::vector<std::uint32_t> decided_, dropped_;
  std::vector<Neighbor> neighbors_, together_;
};

}  // namespace trainyard::detail
