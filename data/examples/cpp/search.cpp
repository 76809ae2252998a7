// A custom search: hill climbing by incremental simulation. Each move costs a fraction of a full simulation.
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

int main() {
  const Problem problem{training_graph(make_network("nmt:batch=32")), make_cluster(preset_cluster("4xV100"))};
  const Schedule start = find_placer("round-robin").place(problem, {});
  DeltaSimulation run{problem, start};
  Random random{1};
  std::size_t accepted = 0;
  for (int i = 0; i < 2'000; ++i) {
    const GroupId group{random.below(problem.groups().size())};  // ops that must share a device
    const DeviceId to{random.below(problem.device_count())};
    // Abandons a move as soon as its makespan exceeds the current one.
    if (!run.try_move(problem.group_ops(group), to, run.makespan()).complete()) continue;
    run.accept();
    ++accepted;
  }
  const LowerBound bound = best_lower_bound(problem);
  std::cout << format_time(simulate(problem, start).makespan) << " -> " << format_time(run.makespan()) << " by "
            << accepted << " of 2000 moves; no schedule is shorter than " << format_time(bound.value) << " ("
            << bound.name << ")\n";
}

/* prints
101.1 ms -> 89.0 ms by 1354 of 2000 moves; no schedule is shorter than 57.1 ms (transfer-path)
*/
