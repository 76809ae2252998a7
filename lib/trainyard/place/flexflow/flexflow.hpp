#pragma once

#include <cstdint>
#include <optional>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct FlexFlowOptions {
  /// First state of the chain: data parallelism, with one replica for each device of the fastest kind (if the graph is
  /// no training graph, or replicas do not fit, an expert's placement of the graph as it is); a random placement of the
  /// graph as it is; or both, each with half of the budget.
  enum class Start : std::uint8_t { both, data_parallel, random } start = Start::both;
  /// Inverse temperature (PlacementChain). None: calibrated such that 3 of 10 worse states are accepted at first.
  std::optional<double> beta = {};
  /// Whether one proposal in 100 splits a convolution or product along its batch or channel dimension, into at most as
  /// many parts as there are devices, or undoes a split.
  bool splits = true;
  bool propagation = false;
};

/// FlexFlow's execution optimizer: a Metropolis search over parallelization strategies (PlacementChain), with the
/// simulated makespan as cost. After each hundredth of the budget (at most 1,000 proposals) the chain restarts from the
/// best state.
///
/// A proposal that changes a split is evaluated by a full simulation with the op's rows edited (EditedSimulation; no
/// such proposals if Problem::runs_in_full()). If it is accepted, the graph is rebuilt. Ops in both graphs stay where
/// they are. The parts of a newly split op go to random devices, and the ops that split its inputs and collect its
/// outputs to the device of the first part. An op that is whole again goes to the device of its first part. The result
/// names its `splits`.
///
/// FlexFlow's own simulator takes ops in the order of their ready times, as does policy fifo, which the schedule has.
/// If time is up before there are replicas, the answer is a random start, or OutOfTime is thrown. In FlexFlow's program
/// beta is absolute (1 per ms), which does not suit graphs of different scales, and it never proposes the last op, as
/// this one does.
///
/// Z. Jia, M. Zaharia, A. Aiken: Beyond data and model parallelism for deep neural networks. MLSys 2019.
Schedule flexflow(const Problem& problem, const FlexFlowOptions& options, const PlaceOptions& run);

/// Default budget of flexflow: 100 proposals for each op, with at most 2 million ops simulated altogether, and at least
/// 1,000 proposals.
std::uint64_t flexflow_budget(const Problem& problem);

}  // namespace trainyard
