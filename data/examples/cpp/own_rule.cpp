// A custom dispatch rule: which of the waiting ops a device runs next.
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

/// The op that frees most memory runs first.
struct FreesMost {
  bool before(const Waiting& a, const Waiting& b) const { return a.run.frees(a.op) > b.run.frees(b.op); }
};

int main() {
  const Problem problem{training_graph(make_network("nmt:batch=32")), make_cluster(preset_cluster("2xV100"))};
  const Placement placement = find_placer("round-robin").place(problem, {}).placement;
  const Timeline fifo = simulate(problem, {.placement = placement});
  const Timeline freeing = simulate(problem, {.placement = placement, .rule = own_rule("frees-most", FreesMost{})});
  for (const auto& [name, timeline] : {std::pair{"fifo", &fifo}, {"frees-most", &freeing}})
    std::cout << name << ": " << format_time(timeline->makespan) << ", peak "
              << format_bytes(timeline->devices[DeviceId{0}].peak) << "\n";
}

/* prints
fifo: 98.4 ms, peak 575.2 MB
frees-most: 99.4 ms, peak 573.1 MB
*/
