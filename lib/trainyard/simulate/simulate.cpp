#include "trainyard/simulate/simulate.hpp"

#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

Nanoseconds simulated_makespan(const Problem& problem, const Schedule& schedule) {
  const Problem whole = scheduled_problem(problem, schedule);
  check_schedule(whole, schedule);
  return Simulation{whole}.makespan(schedule);
}

Timeline simulate(const Problem& problem, const Schedule& schedule) {
  const Problem whole = scheduled_problem(problem, schedule);
  check_schedule(whole, schedule);
  return Simulation{whole}.timeline(schedule);
}

}  // namespace trainyard
