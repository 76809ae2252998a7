#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/memory_load.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// Progress of ops while other tasks use their device's memory (problem/memory_load.hpp).
///
///     left(op) = p(op) 2^40                         when it starts
///     left(op) = left(op) - slowed_rate(s, L)       over each nanosecond; L is the load, without the op's own, after
///                                                   all tasks of the instant at its beginning have started or ended
///
/// Like flows (fair_flows.hpp), an op ends after the first nanosecond at whose end 2 left < rate; alone, after exactly
/// p(op). A device runs one op at a time.
class SlowedOps {
 public:
  struct End {
    std::int64_t time;
    OpId op;
  };

  SlowedOps(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers)
      : problem_(problem),
        placement_(placement),
        transfers_(transfers),
        devices_(problem.device_count()),
        memory_(problem.device_count(), 0) {
    std::map<std::string_view, std::size_t> parts;
    for (const DeviceId device : problem.devices()) {
      const std::string_view whole = problem.cluster().device(device).part_of;
      memory_[device] = whole.empty() ? memories_.size() : parts.try_emplace(whole, memories_.size()).first->second;
      if (memory_[device] == memories_.size()) memories_.emplace_back();
      memories_[memory_[device]].devices.push_back(device);
    }
  }

  void begin(OpId op, DeviceId device, Nanoseconds alone, std::int64_t now) {
    State& state = devices_[device];
    state = {.op = op, .left = static_cast<Wide>(alone.count) << kWorkBits, .since = now};
    state.sensitivity = problem_.copy_sensitivity(op, device);
    changed_.push_back(device);
    if (memories_[memory_[device]].devices.size() == 1) return;
    state.own =
        memory_load(problem_.graph().bytes_accessed(op), alone, problem_.cluster().device(device).memory_bandwidth);
    change(device, state.own);
  }
  bool ends_at(OpId op, DeviceId device, std::int64_t now) const {
    return devices_[device].op == op && devices_[device].end == now;
  }
  void end(DeviceId device) {
    devices_[device].op = OpId::none();
    change(device, -std::exchange(devices_[device].own, 0));
  }

  void copy_begins(TransferId transfer) { add(transfer, 1); }
  void copy_ends(TransferId transfer) { add(transfer, -1); }

  /// The new ends of ops whose rates have changed; valid until the next call.
  std::span<const End> update(std::int64_t now) {
    ends_.clear();
    for (const DeviceId device : changed_) {
      State& state = devices_[device];
      if (state.op.is_none()) continue;
      const std::int64_t rate = slowed_rate(state.sensitivity, memories_[memory_[device]].load - state.own);
      if (rate == state.rate) continue;
      state.left -= static_cast<Wide>(state.rate) * (now - state.since);
      state.since = now;
      state.rate = rate;
      const Wide more = (2 * state.left + rate) / (2 * static_cast<Wide>(rate));
      state.end = now + std::max<std::int64_t>(1, static_cast<std::int64_t>(more));
      ends_.push_back({state.end, state.op});
    }
    changed_.clear();
    return ends_;
  }

 private:
  __extension__ using Wide = __int128;

  struct Memory {
    std::vector<DeviceId> devices = {};
    std::int64_t load = 0;  // of all copies and, if several devices share the memory, of all ops
  };
  struct State {
    OpId op = OpId::none();
    std::int64_t own = 0;  // the op's own load
    Wide left = 0;
    std::int64_t since = 0, rate = 0, end = -1;
    std::uint32_t sensitivity = 0;
  };

  void change(DeviceId device, std::int64_t load) {
    if (load == 0) return;
    Memory& memory = memories_[memory_[device]];
    memory.load += load;
    changed_.insert(changed_.end(), memory.devices.begin(), memory.devices.end());
  }

  void add(TransferId transfer, std::int64_t sign) {
    const OpId collective = transfers_.collective(transfer);
    const Graph& graph = problem_.graph();
    const CollectiveTask* task = collective.is_none() ? nullptr : graph.collective(collective);
    const Bytes bytes = task == nullptr ? graph.bytes(transfers_.tensor[transfer]) : task->bytes;
    const auto touch = [&](DeviceId device) {
      const BytesPerSecond bandwidth = problem_.cluster().device(device).memory_bandwidth;
      change(device, sign * memory_load(bytes, transfers_.duration[transfer], bandwidth));
    };
    if (collective.is_none()) {
      touch(transfers_.from[transfer]);
      touch(transfers_.to[transfer]);
      for (const DeviceId device : transfers_.also_to(transfer)) touch(device);
      return;
    }
    members_.clear();
    for (const OpId op : graph.after(collective)) members_.push_back(placement_[op]);
    for (const OpId op : graph.before(collective)) members_.push_back(placement_[op]);
    std::ranges::sort(members_);
    members_.erase(std::unique(members_.begin(), members_.end()), members_.end());
    std::ranges::for_each(members_, touch);
  }

  const Problem& problem_;
  const Placement& placement_;
  const PlannedTransfers& transfers_;
  IdMap<DeviceId, State> devices_;
  IdMap<DeviceId, std::size_t> memory_;  // index into memories_
  std::vector<Memory> memories_;
  std::vector<DeviceId> changed_, members_;
  std::vector<End> ends_;
};

}  // namespace trainyard::detail
