#include "trainyard/place/learned/placement_walk.hpp"

#include <algorithm>

namespace trainyard::learned {

PlacementWalk::PlacementWalk(const PlacementTask& task, const Devices& start)
    : task_(task), run_(task.problem, {.placement = task.placement(start)}), devices_(start) {
  now_ = run_cost();
}

double PlacementWalk::run_cost() {
  const auto time = static_cast<double>(run_.makespan().count);
  return task_.may_exceed ? time + memory_penalty(task_, run_.peaks()) : time;
}

void PlacementWalk::move(std::uint32_t group, std::uint32_t device) {
  if (devices_[group] == device) return;
  task_.checkpoint();
  run_.try_move(task_.groups.ops[group], DeviceId{device});
  run_.accept();
  devices_[group] = device;
  now_ = run_cost();
}

double PlacementWalk::gain(std::uint32_t group, std::uint32_t device) {
  if (devices_[group] == device) return 0;
  task_.checkpoint();
  ++looks_;
  const double now = std::max(1.0, now_);
  const auto limit = static_cast<std::int64_t>(now * (1 + kMostLoss));
  const DeltaResult result = run_.try_move(task_.groups.ops[group], DeviceId{device}, Nanoseconds{limit});
  if (!result.complete()) return -kMostLoss;
  auto time = static_cast<double>(result.makespan.count);
  // Without a gain in time, the memory need not be checked.
  if (task_.may_exceed && time < now) time += memory_penalty(task_, run_.peaks());
  run_.reject();
  return std::max(-kMostLoss, 1 - time / now);
}

}  // namespace trainyard::learned
