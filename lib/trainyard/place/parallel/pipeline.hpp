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
  std::size_t microbatches = 0;  // per replica; 0: four for each device of its pipeline, fewer for large graphs;
                                 // without training 1, or with chunks 2 for each device
  std::size_t chunks = 2;        // stages per device of interleaved
  std::optional<std::int64_t> batch = {};  // samples of a step, at least the number of microbatches; none: unknown
  /// Recomputation for the backward pass: nothing; each stage from its input; each block of layers (the layer's name up
  /// to the first "/") from its input; or, `fitting`, as much as the schedule needs to fit in memory.
  enum class Recompute : std::uint8_t { no, stages, blocks, fitting } recompute = Recompute::fitting;
  /// How stages are cut: to minimize the time of the slowest stage, within memories; or by PipeDream's partitioner for
  /// straight pipelines, which counts the transfers between stages instead of memory.
  enum class Stages : std::uint8_t { time, pipedream } stages = Stages::time;
  std::function<bool()> stop = {};  // polled: end with the best so far, or throw OutOfTime
};

/// A pipeline over the devices worth using, in their order. Stages are contiguous layers (find_layers), the batch is
/// divided into microbatches, and each device runs its stages in the schedule's order. Several such pipelines may run
/// side by side, each with a replica of the network (plan_schedule.hpp). With one microbatch and one replica this is
/// model parallelism by layers.
///
/// The number of microbatches whose activations a stage will hold is not known in advance. Stages are cut for several
/// assumptions about it, and the best simulated outcome is kept.
/// Throws InputError "microbatches" as check_microbatches() does, and for more microbatches than samples; "replicas"
/// for more replicas than devices, or for several without training; "parameter-value" for PipeDream's partitioner with
/// several stages per device.
Schedule place_pipeline(const Problem& problem, const PipelineOptions& options = {});

}  // namespace trainyard
