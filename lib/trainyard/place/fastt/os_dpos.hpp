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
  /// The input of the search: the graph with one replica per device where a replica fits on a device, else with
  /// one (`fitting`); always so (`replicas`); or the graph as it is (`graph`). Only training graphs are replicated.
  enum class Input : std::uint8_t { fitting, replicas, graph } input = Input::fitting;
  DposOptions dpos = {};  // of the schedule: its `stop` ends all
  bool split_ops = true;  // else the input under DPOS
  /// How many critical ops in a row may gain nothing before the search ends. The paper: the first one ends it.
  std::size_t patience = 1;
  /// Asked all the time: plans with the splits found so far.
  std::function<bool()> stop = {};
};

/// DPOS with op splitting. Of the planned graph's longest path, by descending op time, each op that can be split is
/// split in 2, 3, ... parts, as many as there are devices at most, along its batch and its channel dimension
/// (rewrite/split_op.hpp); the split with the shortest plan is kept if that is shorter than before, else the search
/// ends. The path stays that of the first plan. The schedule is of the graph with these splits, which it names.
///
/// A split is tried in place, without a copy of the graph, and given up as soon as a finish and the least time that
/// must follow it reach what was found.
///
/// Throws OutOfTime where `stop` ends it before the first plan, or dpos.stop before the last.
///
/// Ours: ops of colocation groups are not split (their parts could not part); ties go to batch, then fewer parts.
///
/// X. Yi et al.: Fast training of deep learning models over multiple GPUs. Middleware 2020 (FastT), Algorithm 2.
Schedule os_dpos(const Problem& problem, const OsDposOptions& options = {});

/// FastT's input: the rewrite that makes the problem data parallel, by OsDposOptions::input; none where the graph stays
/// as it is. Throws OutOfTime where `stop` ends it before it is known whether a replica fits.
std::optional<Replicate> fastt_input(const Problem& problem, OsDposOptions::Input input,
                                     const std::function<bool()>& stop = {});

/// The start of FastT's exploration: of a graph with one replica per device (data_parallel), replica r on device r, and
/// what all share on the device with the least parameters so far. The problem must have that rewrite.
Schedule data_parallel_schedule(const Problem& problem, std::size_t replicas);

}  // namespace trainyard
