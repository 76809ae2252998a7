#include "trainyard/place/fastt/exploration.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "trainyard/core/portable_math.hpp"
#include "trainyard/place/baechi/m_topo.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {
namespace {

Schedule start_of(const Problem& believed, const OsDposOptions& options) {
  const auto replicate = fastt_input(believed, options.input, options.stop);
  const Problem input = replicate ? apply_rewrites(believed, {*replicate}, Checkpoint{options.stop}) : believed;
  if (replicate && replicate->replicas > 1) return data_parallel_schedule(input, replicate->replicas);
  Schedule schedule = m_topo(input);
  schedule.rewrites = input.rewrites();
  return schedule;
}

bool same_strategy(const Schedule& a, const Schedule& b) {
  return a.placement == b.placement && a.rewrites == b.rewrites && a.policy == b.policy && a.priority == b.priority &&
         a.order == b.order;
}

}  // namespace

Nanoseconds SimulatedMachine::noisy(Nanoseconds time) {
  if (time == Nanoseconds{0} || noise_ == 0) return time;
  const double variance = portable_log(1 + noise_ * noise_);
  const double uniform = (std::floor(random_.uniform() * 0x1p52) + 0.5) * 0x1p-52;
  const double factor = portable_exp(std::sqrt(variance) * normal_quantile(uniform) - variance / 2);
  return Nanoseconds{static_cast<std::int64_t>(std::floor(static_cast<double>(time.count) * factor + 0.5))};
}

StepProfile SimulatedMachine::operator()(const Schedule& schedule) {
  const Problem problem = scheduled_problem(truth_, schedule, checkpoint_);
  checkpoint_();
  const Timeline timeline = simulate(problem, schedule);
  StepProfile profile{.fits = timeline.fits()};
  if (!profile.fits) return profile;
  Simulation simulation{problem};
  std::int64_t total = 0;
  IdMap<OpId, Nanoseconds> times(problem.op_count());
  for (std::size_t step = 0; step < steps_; ++step) {
    for (const OpId op : problem.ops()) {
      checkpoint_(truth_.device_count());
      const DeviceId device = schedule.placement[op];
      times[op] = noisy(problem.duration(op, device));
      profile.ops.push_back({std::string{problem.graph().name(op)}, device, times[op]});
    }
    for (const Transfer& transfer : timeline.transfers) {
      const Nanoseconds time = noisy(transfer.end - transfer.start);
      profile.transfers.push_back({transfer.from, transfer.to, transfer.bytes, time});
    }
    total += simulation.makespan(schedule, times).count;
  }
  profile.step = Nanoseconds{total / static_cast<std::int64_t>(steps_)};
  return profile;
}

Exploration explore(const Problem& problem, const Machine& machine, const ExplorationOptions& options) {
  Exploration result{{}, kLongestTime, {}, LearnedCosts{problem}, false};
  const auto run = [&](const Schedule& schedule, Nanoseconds planned) {
    const StepProfile profile = machine(schedule);
    ExplorationRound round{.planned = planned, .measured = profile.fits ? profile.step : kLongestTime, .change = {}};
    if (profile.fits) round.change = result.costs.add(profile);
    return round;
  };
  const auto& stop = options.placing.stop;
  result.best = start_of(result.costs.believed(problem, Checkpoint{stop}), options.placing);
  ExplorationRound start = run(result.best, Nanoseconds{0});
  start.kept = true;
  result.measured = start.measured;
  result.rounds.push_back(start);
  while (result.rounds.size() <= options.rounds && !(stop && stop())) {
    Schedule next;
    ExplorationRound round;
    try {
      next = os_dpos(result.costs.believed(problem, Checkpoint{stop}), options.placing);
      round = run(next, next.plan->makespan);
    } catch (const OutOfTime&) {  // a strategy that was not measured does not count
      break;
    }
    const bool same = same_strategy(next, result.best);
    round.kept = same || round.measured <= result.measured;
    if (round.kept) {
      result.best = std::move(next);
      result.measured = round.measured;
    }
    result.rounds.push_back(round);
    result.stable = round.change.entries == 0 && (same || round.change.largest < options.stable);
    if (result.stable) break;
  }
  return result;
}

}  // namespace trainyard
