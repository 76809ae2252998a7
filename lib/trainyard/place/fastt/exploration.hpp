#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/place/fastt/learned_costs.hpp"
#include "trainyard/place/fastt/os_dpos.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Runs a few steps of a schedule and measures them.
using Machine = std::function<StepProfile(const Schedule&)>;

/// A simulated machine: the problem's times are the true ones, hidden behind noise. In each step, op times and measured
/// transfer times scatter log-normally about them with deviation `noise` (as a share; see simulate/noise.hpp). It is
/// out of memory if the simulation is.
class SimulatedMachine {
 public:
  /// Passes the checkpoint for each op of the schedule's graph and of each step.
  SimulatedMachine(const Problem& truth, double noise, std::uint64_t seed, std::size_t steps = 3,
                   Checkpoint checkpoint = Checkpoint{})
      : truth_(truth), noise_(noise), random_(seed), steps_(steps), checkpoint_(std::move(checkpoint)) {}
  StepProfile operator()(const Schedule& schedule);

 private:
  Nanoseconds noisy(Nanoseconds time);

  Problem truth_;
  double noise_;
  Random random_;
  std::size_t steps_;
  Checkpoint checkpoint_;
};

struct ExplorationOptions {
  OsDposOptions placing = {};
  std::size_t rounds = 10;  // fewer if placing.stop() returns true, or the machine throws OutOfTime
  double stable = 0.05;     // limit on the relative change of the mean of an op time
};

/// One strategy that was tried.
struct ExplorationRound {
  Nanoseconds planned;   // by the costs known then; 0 for the start
  Nanoseconds measured;  // kLongestTime if out of memory
  bool kept = false;     // otherwise the machine was rolled back to the strategy before
  LearnedCosts::Change change;
};

struct Exploration {
  Schedule best;
  Nanoseconds measured;
  std::vector<ExplorationRound> rounds;  // the start first
  LearnedCosts costs;
  bool stable = false;  // otherwise the rounds ran out
};

/// FastT's white-box search during training. In advance only the graph, the devices and their memories are known:
///
///     start    data parallel if a replica fits on a device, else ops in topological order, memory dealt out (m_topo)
///     round    OS-DPOS on the costs known so far, with unmeasured times as 0; a few steps of its strategy are run and
///              measured, and the costs updated; if the measured step is longer than that of the strategy before, the
///              machine is rolled back to that
///     end      when a round measures nothing new, and changes no mean by `stable` or more or finds the current
///              strategy again; at the latest after `rounds`
///
/// X. Yi et al.: Fast training of deep learning models over multiple GPUs. Middleware 2020 (FastT), sections 4 and 5.
Exploration explore(const Problem& problem, const Machine& machine, const ExplorationOptions& options = {});

}  // namespace trainyard
