// Runs one kind of simulation a given number of times: count_instructions.py counts its instructions under valgrind and
// takes differences, so that what comes before cancels.
//
//     instructions KIND RUNS

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "floor.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "workloads.hpp"

using namespace trainyard;
using namespace trainyard::bench;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: instructions floor|fifo|egress|shared|strict|priority|peaks|timeline RUNS\n", stderr);
    return 2;
  }
  const std::string_view kind = argv[1];
  constexpr std::size_t kOps = 5'000, kDevices = 8;
  Random random{7};
  const PlacedGraph placed = layered(kOps, kDevices, random);
  const Links links = kind == "egress" ? Links::egresses : kind == "shared" ? Links::switched : Links::pairs;
  const Problem problem = make_problem(placed.graph, kDevices, links);
  std::vector<Schedule> schedules = placements(placed, kDevices, 4, 0.05, random);
  if (kind == "strict") schedules = with_strict_orders(problem, std::move(schedules));
  if (kind == "priority") schedules = with_priorities(std::move(schedules), random);
  const detail::DenseProblem dense{problem};
  Floor floor{dense};
  Simulation simulation{problem};
  std::int64_t sum = 0;
  for (long i = 0; i < std::atol(argv[2]); ++i) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(i) % schedules.size()];
    if (kind == "floor")
      sum += floor.branchless(schedule);
    else if (kind == "peaks")
      sum += simulation.peaks(schedule).makespan.count;
    else if (kind == "timeline")
      sum += simulation.timeline(schedule).makespan.count;
    else
      sum += simulation.makespan(schedule).count;
  }
  std::printf("%lld\n", static_cast<long long>(sum));
  return 0;
}
