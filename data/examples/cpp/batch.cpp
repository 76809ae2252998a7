// Many placements at once, on all cores: the distribution of the step times of random placements.
#include <algorithm>
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

int main() {
  const Problem problem{training_graph(make_network("resnet18:batch=32")), make_cluster(preset_cluster("4xV100"))};
  Random random{7};
  std::vector<Schedule> schedules;
  for (int i = 0; i < 1'000; ++i) {
    Schedule& schedule = schedules.emplace_back(Schedule{.placement = Placement(problem.op_count())});
    for (const GroupId group : problem.groups()) {
      const DeviceId device{random.below(problem.device_count())};
      for (const OpId op : problem.group_ops(group)) schedule.placement[op] = device;
    }
  }
  std::vector<Nanoseconds> steps = Batch{problem}.makespans(schedules);  // in the order of the schedules
  std::ranges::sort(steps);
  const Nanoseconds one = simulate(problem, find_placer("single").place(problem, {})).makespan;
  std::cout << "least " << format_time(steps.front()) << ", median " << format_time(steps[500]) << ", most "
            << format_time(steps.back()) << "; on one device " << format_time(one) << "\n";
}

/* prints
least 55.5 ms, median 74.2 ms, most 91.7 ms; on one device 26.6 ms
*/
