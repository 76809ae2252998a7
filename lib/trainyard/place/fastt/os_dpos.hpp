#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/graph/rewrite.hpp"
#include "trainyard/place/fastt/dpos.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct OsDposOptions {
  /// Input of the search: the graph with one replica per device if a replica fits on a device, otherwise with one
  /// (`fitting`); always with one per device (`replicas`); or the graph as it is (`graph`). Only training graphs are
  /// replicated.
  enum class Input : std::uint8_t { fitting, replicas, graph } input = Input::fitting;
  DposOptions dpos = {};  // of the schedule; its `stop` ends everything
  bool split_ops = true;  // otherwise DPOS on the input
  /// Number of consecutive critical ops without a gain that ends the search. In the paper it is one.
  std::size_t patience = 1;
  /// Polled throughout: ends the search, and plans with the splits found so far.
  std::function<bool()> stop = {};
};

/// DPOS with op splitting. It takes the ops on the longest path of the planned graph, by descending op time. Each op
/// that can be split is split into 2, 3, ... parts, at most as many as there are devices, along its batch and its
/// channel dimension (rewrite/split_op.hpp). The split with the shortest plan is kept if that is shorter than before;
/// otherwise the search ends (see `patience`). The path stays that of the first plan. The schedule is for the graph
/// with these splits, and names them.
///
/// A split is tried in place, without a copy of the graph. It is abandoned once a finish plus the least time that must
/// follow it reaches the shortest plan so far.
///
/// Throws OutOfTime if `stop` ends it before the first plan, or dpos.stop before the last.
///
/// Additions: ops of colocation groups are not split, since their parts could not be separated; ties go to the batch
/// dimension, then to fewer parts.
///
/// X. Yi et al.: Fast training of deep learning models over multiple GPUs. Middleware 2020 (FastT), Algorithm 2.
Schedule os_dpos(const Problem& problem, const OsDposOptions& options = {});

/// FastT's input: the rewrite that makes the problem data parallel, by OsDposOptions::input; none if the graph stays as
/// it is. Throws OutOfTime if `stop` ends it before it is known whether a replica fits.
std::optional<Replicate> fastt_input(const Problem& problem, OsDposOptions::Input input,
                                     const std::function<bool()>& stop = {});

/// The start of FastT's exploration, for a graph with one replica per device (data_parallel): replica r is on device r,
/// and shared ops are on the device with the least parameters so far. The problem must have that rewrite.
Schedule data_parallel_schedule(const Problem& problem, std::size_t replicas);

}  // namespace trainyard
