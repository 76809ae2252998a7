#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct PlanPlacerOptions {
  std::optional<std::int64_t> batch = {};  // samples of a step; none: 16 for each device
  std::size_t candidates = 4;              // plans that are simulated
  unsigned threads = 0;
  std::function<bool()> stop = {};
};

/// Data and pipeline parallelism in one plan: how many replicas, how many stages, how large a microbatch, which
/// pipeline schedule (1f1b, interleaved, and where gradients of weights are ops of their own those of zero bubble),
/// where the stages are cut, what is computed again, whether replicas share the optimizer's state. Plans are searched
/// by their estimates (search_plans over ChainOfBlocks); the best of different degrees are simulated whole, as
/// schedules of the problem (schedule_of), and the best of these is returned; where none fits in memory, more are.
///
/// Throws InputError ("no-training"), "plan" where no plan fits; OutOfTime where none was simulated in time.
Schedule place_plan(const Problem& problem, const PlanPlacerOptions& options = {});

}  // namespace trainyard
