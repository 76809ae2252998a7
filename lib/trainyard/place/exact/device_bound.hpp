#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/exact/model.hpp"

namespace trainyard::detail {

/// Lower bounds on the heads and tails of each op i on each device d that it may still use in a partial placement. With
/// p(u, d) the duration of u on d, and c(u, i, d', d) the time of the transfer from u on d' to i on d:
///
///     head(i, d) >= min over d' of head(u, d') + p(u, d') + (d' != d) c(u, i, d', d)  for each predecessor u of i
///     head(i, d) >= the least k by which device d can have run, one after the other, all predecessors of i whose
///                   tensors cannot arrive from another device by k
///
/// The tails are bounded in the same way, backwards in time. The proof is that of chains_with_transfers
/// (bound/chains.hpp), with op i on d given. If head + p + tail >= limit, no schedule below the limit has the op on
/// that device; the device is dropped for the op's whole group. Heads and tails are then recomputed, for up to four
/// rounds.
class DeviceBound {
 public:
  explicit DeviceBound(const ExactModel& model);

  /// Whether the problem is small enough: the bound goes through all pairs of devices for each edge.
  static bool worthwhile(const ExactModel& model) { return model.ops * model.devices * model.devices <= 200'000; }

  /// Returns the maximum over ops of the minimum over devices of head + p + tail, and at least `limit` if some op has
  /// no device left. `device[op]` is kUnplaced if the op is undecided.
  std::int64_t operator()(const std::vector<std::uint32_t>& device, std::int64_t limit);

  /// Valid after a call that returned less than the limit: the op's only remaining device, kUnplaced if several remain;
  /// and its least head, tail and duration over the remaining devices.
  std::uint32_t device(std::size_t op) const { return decided_[op]; }
  std::int64_t head(std::size_t op) const { return least_head_[op]; }
  std::int64_t tail(std::size_t op) const { return least_tail_[op]; }
  std::int64_t time(std::size_t op) const { return least_time_[op]; }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

  struct Neighbor {
    std::int64_t release, duration;  // on the op's own device; kNever if it cannot be there
    std::int64_t remote;             // earliest arrival of its tensors from another device
    std::int64_t end() const { return release == kNever ? kNever : release + duration; }
  };

  std::int64_t longest(const std::vector<ExactModel::Input>& edges, std::size_t op, std::size_t device, bool before,
                       const std::vector<std::int64_t>& release);
  std::int64_t join(std::int64_t gap);
  bool drop(std::int64_t limit, std::int64_t& bound);

  const ExactModel& model_;
  std::vector<std::uint32_t> group_;                // of an op
  std::vector<bool> joins_inputs_, joins_outputs_;  // by op: whether join() is valid for the edges
  std::vector<std::vector<std::uint32_t>> left_;    // remaining devices of an op, ascending
  std::vector<std::int64_t> head_, tail_;           // op x device; valid for remaining devices
  std::vector<std::int64_t> least_head_, least_tail_, least_time_;
  std::vector<std::uint32_t> decided_, dropped_;
  std::vector<Neighbor> neighbors_, together_;
};

}  // namespace trainyard::detail
