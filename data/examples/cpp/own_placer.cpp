// A custom placer, compared with placers of the catalogue.
#include <fstream>
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

/// Assigns each colocation group to the least loaded device that can run all of its ops.
Schedule least_loaded(const Problem& problem) {
  Schedule schedule{.placement = Placement(problem.op_count())};
  IdMap<DeviceId, Nanoseconds> load(problem.device_count());
  for (const GroupId group : problem.groups()) {
    DeviceId best;
    for (const DeviceId device : problem.devices())
      if (problem.can_run(group, device) && (best.is_none() || load[device] < load[best])) best = device;
    for (const OpId op : problem.group_ops(group)) {
      schedule.placement[op] = best;
      load[best] += problem.duration(op, best);
    }
  }
  return schedule;
}

int main() {
  const Problem problem{training_graph(make_network("lenet:batch=8")), make_cluster(preset_cluster("2xV100"))};
  const Placer mine{.name = "least-loaded",
                    .summary = "each group to the least loaded device",
                    .source = "own",
                    .place = [](const Problem& p, const PlaceOptions&) { return least_loaded(p); }};
  const Comparison comparison =
      compare(problem, {mine, "heft", auto_with({mine})}, {.place = {.budget = {.evaluations = 100}}});
  std::cout << comparison;
  std::ofstream page{"report.html"};
  write_page(comparison, page);
}
