#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/plan/pipeline_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::size_t replicas = 1;      // of the whole pipeline, each over its share of the devices
  std::size_t microbatches = 0;  // of a replica; 0: four for each device of its pipeline, fewer of large graphs; one
                                 // where nothing is trained
  std::size_t chunks = 2;        // of a device, of interleaved
  std::optional<std::int64_t> batch = {};  // samples of a step, which are no fewer than microbatches; none: not known
  /// Recomputation for the backward pass: nothing; each stage from what comes into it; each block of layers
  /// (the layer's name up to the first "/"); or, `fitting`, as much as it takes for the schedule to fit.
  enum class Recompute : std::uint8_t { no, stages, blocks, fitting } recompute = Recompute::fitting;
  /// How stages are cut: so that the slowest takes the least time, within memories; or by PipeDream's partitioner,
  /// straight, which counts what crosses between them instead of memory.
  enum class Stages : std::uint8_t { time, pipedream } stages = Stages::time;
  std::function<bool()> stop = {};  // asked on the way: end with the best so far, or throw OutOfTime
};

/// A pipeline over the devices worth using, in their order: contiguous layers (find_layers) are stages, the batch is
/// divided into microbatches, and each device runs its stages in the schedule's order; or several such pipelines side
/// by side, each with a replica of the network (plan_schedule.hpp). With one microbatch and one replica it is model
/// parallelism by layers.
///
/// How many microbatches' activations a stage will hold is not known before; stages are cut for several shares of them,
/// and the best outcome in simulation is kept.
///
/// Throws InputError ("microbatches") as check_microbatches() does and for more of them than samples, and "replicas"
/// for more than there are devices, or where nothing is trained.
Schedule place_pipeline(const Problem& problem, const PipelineOptions& options = {});

}  // namespace trainyard
