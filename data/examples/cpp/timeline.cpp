// Reading a timeline: where the time of a step goes, what holds memory, and the critical path.
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

int main() {
  const Problem problem{training_graph(make_network("vgg16:batch=16")), make_cluster(preset_cluster("2xP100"))};
  const Schedule schedule = find_placer("pipedream").place(problem, {});
  const Timeline timeline = simulate(problem, schedule);
  for (const DeviceId device : problem.devices()) {
    const DeviceUse& use = timeline.devices[device];
    std::cout << problem.cluster().device(device).name << ": busy " << format_time(use.busy) << " of "
              << format_time(timeline.makespan) << ", peak " << format_bytes(use.peak) << " at "
              << format_time(use.peak_at) << "\n";
  }
  Bytes sent{};
  for (const Transfer& transfer : timeline.transfers) sent += transfer.bytes;
  std::cout << timeline.transfers.size() << " transfers of " << format_bytes(sent) << "\n";
  const Explanation why = explain(problem, schedule, timeline);
  std::cout << "critical path: " << why.path.size() << " tasks, " << format_time(why.ops) << " in ops, "
            << format_time(why.transfers) << " in transfers\n";
}

/* prints
gpu0: busy 48.8 ms of 104.2 ms, peak 1.01 GB at 71.8 ms
gpu1: busy 50.1 ms of 104.2 ms, peak 1.28 GB at 35.7 ms
2 transfers of 102.8 MB
critical path: 113 tasks, 98.9 ms in ops, 5.31 ms in transfers
*/
