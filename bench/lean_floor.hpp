#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "workloads.hpp"

namespace trainyard::bench {

/// The floor (floor.hpp) on arrays specialised for it: durations and sizes in 32 bits, and transfer times computed from
/// two latencies and bandwidths instead of looked up per pair of devices. A general simulator cannot use such arrays;
/// this is the strictest yardstick.
class LeanFloor {
 public:
  struct Span {
    std::int64_t start, end;
  };

  /// A floor for a workload whose transfers take one of two latencies and bandwidths: within a host and between hosts.
  explicit LeanFloor(const Workload& workload);

  std::int64_t branchy(const Placement& placement);
  std::int64_t branchless(const Placement& placement);
  /// Spans of the last walk, by op.
  const std::vector<Span>& spans() const { return spans_; }

 private:
  struct State {
    std::int64_t ready;
    std::uint32_t pending, device;
  };
  template <bool kBranchless, bool kOneTensor>
  std::int64_t walk(const Placement& placement);

  std::int64_t transfer_time(std::uint32_t from, std::uint32_t to, std::uint32_t bytes) const {
    __extension__ using Wide = unsigned __int128;
    const unsigned far = (from >> host_shift_) != (to >> host_shift_) ? 1U : 0U;
    return latency_[far] + static_cast<std::int64_t>((static_cast<Wide>(bytes) * per_byte_[far]) >> 32);
  }

  std::uint32_t ops_ = 0;
  bool one_tensor_ = true;  // each op has one output
  std::vector<std::uint32_t> first_tensor_, first_edge_, consumer_, pending_, bytes_;
  std::vector<std::uint32_t> duration_;  // ops x columns
  std::size_t columns_ = 1;
  std::vector<std::uint32_t> column_;
  unsigned host_shift_ = 3;
  std::int64_t latency_[2] = {};
  std::uint64_t per_byte_[2] = {};  // nanoseconds, fixed point with 32 fractional bits

  std::vector<State> state_;
  std::vector<std::uint32_t> queue_;
  std::vector<Span> spans_;
};

}  // namespace trainyard::bench
