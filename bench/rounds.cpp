#include "rounds.hpp"

#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard::bench {

Rounds make_rounds(std::size_t rounds, std::size_t devices, Waits waits) {
  constexpr Bytes kBytes{1024};
  const auto named = [](const char* what, std::size_t i, std::size_t device) {
    return what + std::to_string(i) + "." + std::to_string(device);
  };
  GraphBuilder builder{"rounds"};
  std::vector<DeviceId> placement;
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto sum = [](std::size_t round) { return "sum" + std::to_string(round); };
    OpSpec collective{.name = sum(i), .collective = CollectiveTask{CollectiveKind::all_reduce, kBytes}};
    for (std::size_t d = 0; d < devices; ++d) {
      OpSpec op{
          .name = named("op", i, d), .times = {{"gpu", Nanoseconds{1000}}}, .outputs = {{named("t", i, d), kBytes}}};
      if (i > 0 && waits == Waits::collectives) op.after.push_back(sum(i - 1));
      if (i > 0 && waits != Waits::collectives) op.inputs.push_back(named("t", i - 1, d));
      if (i > 0 && waits == Waits::transfers) op.inputs.push_back(named("t", i - 1, (d + 1) % devices));
      collective.after.push_back(op.name);
      builder.add(std::move(op));
      placement.push_back(DeviceId{d});
    }
    if (waits != Waits::collectives) continue;
    builder.add(std::move(collective));
    placement.push_back(DeviceId{0});
  }
  ClusterSpec spec = preset_cluster(std::to_string(devices) + "xH100");
  for (Device& device : spec.devices) device.device_class = "gpu";
  Rounds made{Problem{std::move(builder).build(), make_cluster(spec)}, {}};
  made.schedule.placement = Placement{std::move(placement)};
  return made;
}

Schedule urgent(const Rounds& made) {
  Schedule schedule = made.schedule;
  schedule.policy = Policy::strict;
  schedule.urgent_links = true;
  schedule.order.assign(made.problem.device_count(), {});
  for (const OpId op : made.problem.ops()) {
    schedule.order[schedule.placement[op]].push_back(op);
    schedule.priority.push_back(-static_cast<double>(op.index()));
  }
  return schedule;
}

}  // namespace trainyard::bench
