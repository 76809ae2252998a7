#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "trainyard/place/parallel/pipeline_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::size_t microbatches = 0;  // 0: four for each device, fewer of large graphs; one where nothing is trained
  std::size_t chunks = 2;        // of a device, of interleaved
  /// Recomputation for the backward pass: nothing; each stage from what comes into it; each block of layers
  /// (the layer's name up to the first "/"); or, `fitting`, as much as it takes for the schedule to fit.
  enum class Recompute : std::uint8_t { no, stages, blocks, fitting } recompute = Recompute::fitting;
  /// How stages are cut: so that the slowest takes the least time, within memories; or by PipeDream's partitioner,
  /// straight, which counts what crosses between them instead of memory.
  enum class Stages : std::uint8_t { time, pipedream } stages = Stages::time;
  std::function<bool()> stop = {};  // asked on the way: end with the best so far, or throw OutOfTime
};

/// A pipeline over the devices worth using, in their order: contiguous layers are stages, the batch is divided into
/// microbatches (rewrite/microbatches.hpp), and each device runs its stages in the schedule's order, strictly;
/// updates come last. The layers are those of find_layers(); a backward op is where its layer is, a colocation group
/// (weights that two stages read) where its first op is, and ops there for its sake run when they are ready. With one
/// microbatch it is model parallelism by layers.
///
/// How many microbatches' activations a stage will hold is not known before; stages are cut for several shares of them,
/// and the best outcome in simulation is kept.
///
/// Throws InputError ("microbatches") for interleaved where the devices do not divide them.
Schedule place_pipeline(const Problem& problem, const PipelineOptions& options = {});

}  // namespace trainyard
