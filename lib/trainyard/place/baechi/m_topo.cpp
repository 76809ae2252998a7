#include "trainyard/place/baechi/m_topo.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "trainyard/place/baechi/m_edges.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"

namespace trainyard {
namespace {

class Walk {
 public:
  Walk(const Problem& problem, const MTopoOptions& options) : problem_(problem), options_(options) {
    count_needs();
    set_limits();
  }

  Schedule run() {
    Schedule schedule{.placement = Placement(problem_.op_count())};
    for (const OpId op : OpEdges{problem_.graph()}.fifo_order()) {
      if (!schedule.placement[op].is_none()) continue;
      const GroupId group = problem_.group(op);
      const DeviceId device = choose(group);
      used_[device] += need_[group];
      ledger_.take(group, device);
      for (const OpId member : problem_.group_ops(group)) schedule.placement[member] = device;
    }
    return schedule;
  }

 private:
  void count_needs() {
    const Graph& graph = problem_.graph();
    bool grouped = false;
    IdMap<GroupId, Bytes> workspace(problem_.group_count()), resident(problem_.group_count());
    Bytes sum{0}, largest_op{0};
    for (const OpId op : problem_.ops()) {
      const GroupId group = problem_.group(op);
      Bytes need = graph.workspace_bytes(op);
      for (const TensorId tensor : graph.outputs(op)) need += graph.bytes(tensor);
      if (!options_.literal) need += problem_.resident_bytes(op);
      need_[group] += need;
      sum += need;
      largest_op = std::max(largest_op, need);
      workspace[group] = std::max(workspace[group], graph.workspace_bytes(op));
      resident[group] += problem_.resident_bytes(op);
      grouped |= !graph.colocation_group(op).empty();
    }
    entry_ = need_;
    strict_ = options_.literal && grouped && options_.uniform;
    if (options_.literal && grouped)
      for (const GroupId group : entry_.ids()) entry_[group] = workspace[group] + resident[group];
    share_ = Bytes{sum.count / static_cast<std::int64_t>(problem_.device_count())} +
             (options_.literal ? largest_op : *std::ranges::max_element(need_));
  }

  void set_limits() {
    constexpr Bytes kUnlimited{std::numeric_limits<std::int64_t>::max()};
    for (const DeviceId device : problem_.devices())
      limit_[device] = options_.uniform ? share_ : problem_.cluster().device(device).memory.value_or(kUnlimited);
  }

  bool has_room(GroupId group, DeviceId device) const {
    const Bytes left = limit_[device] - used_[device];
    if (strict_ ? entry_[group] >= left : entry_[group] > left) return false;
    return options_.literal || ledger_.excess_with(group, device) == Bytes{0};
  }

  DeviceId choose(GroupId group) {
    const auto able = able_[group];
    const auto can_run = [&](DeviceId device) { return std::ranges::binary_search(able, device); };
    while (current_ < problem_.device_count()) {
      const DeviceId device{current_};
      if (!can_run(device)) {
        const auto after = std::ranges::upper_bound(able, device);
        const DeviceId next = after == able.end() ? able.front() : *after;
        return has_room(group, next) ? next : anywhere(group);
      }
      if (has_room(group, device)) return device;
      ++current_;
    }
    return anywhere(group);
  }

  DeviceId anywhere(GroupId group) {
    ledger_.narrow(group, able_[group], candidates_);
    return *std::ranges::min_element(candidates_, {}, [&](DeviceId device) { return used_[device]; });
  }

  const Problem& problem_;
  MTopoOptions options_;
  AbleDevices able_{group_devices(problem_)};
  MemoryLedger ledger_{problem_};
  IdMap<GroupId, Bytes> need_{problem_.group_count()};   // memory that the group takes on a device
  IdMap<GroupId, Bytes> entry_{problem_.group_count()};  // memory that must be free for it
  bool strict_ = false;                                  // some memory must be left over
  Bytes share_;
  IdMap<DeviceId, Bytes> limit_{problem_.device_count()}, used_{problem_.device_count()};
  std::size_t current_ = 0;
  std::vector<DeviceId> candidates_;
};

}  // namespace

Schedule m_topo(const Problem& problem, const MTopoOptions& options) { return Walk{problem, options}.run(); }

}  // namespace trainyard
