#include "trainyard/simulate/simulate.hpp"

#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

Nanoseconds simulated_makespan(const Problem& problem, const Schedule& schedule) {
  check_schedule(problem, schedule);
  return Simulation{problem}.makespan(schedule);
}

Timeline simulate(const Problem& problem, const Schedule& schedule) {
  check_schedule(problem, schedule);
  return Simulation{problem}.timeline(schedule);
}

}  // namespace trainyard
