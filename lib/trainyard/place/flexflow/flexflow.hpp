#pragma once

#include <cstdint>
#include <optional>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct FlexFlowOptions {
  /// The chain's first state: data parallelism, one replica for each device of the fastest kind (where the graph is
  /// not one of training, or replicas do not fit, the placement that an expert would make of the graph as it is); a
  /// random placement of the graph as it is; or both, each with half of the budget.
  enum class Start : std::uint8_t { both, data_parallel, random } start = Start::both;
  /// Inverse temperature (PlacementChain); none: calibrated such that 3 of 10 worse states are taken at first.
  std::optional<double> beta = {};
  /// Whether proposals split convolutions and products, in as many parts as there are devices at most, along their
  /// batch or their channel dimension, and take splits back: one in 100.
  bool splits = true;
  bool propagation = false;
};

/// FlexFlow's execution optimizer: a Metropolis search over parallelization strategies (PlacementChain), its cost the
/// simulated makespan. After each hundredth of the budget (at most 1,000 proposals) the chain goes on from the best
/// state.
///
/// A proposal that changes a split is evaluated by a full simulation with the op's rows edited (EditedSimulation; on
/// fair links there are no such proposals), and the graph is made anew when it is taken: what is in both graphs stays
/// where it is, the parts of a newly split op go to random devices, what splits and collects them to the device of the
/// first part, and what is whole again to that of its first part. The result names its `splits`.
///
/// FlexFlow's own simulator takes ops in the order of their ready times, as policy fifo does, which is what the
/// schedule has. Where time is up before there are replicas, a random start is the answer, or OutOfTime is thrown. In
/// its program beta is absolute (1 per ms), which no scale of graphs shares; and it never proposes the last op, which
/// ours does.
///
/// Z. Jia, M. Zaharia, A. Aiken: Beyond data and model parallelism for deep neural networks. MLSys 2019.
Schedule flexflow(const Problem& problem, const FlexFlowOptions& options, const PlaceOptions& run);

/// The budget of flexflow where none is given: 100 proposals for each op, of 2 million ops altogether at most; at least
/// 1,000.
std::uint64_t flexflow_budget(const Problem& problem);

}  // namespace trainyard
