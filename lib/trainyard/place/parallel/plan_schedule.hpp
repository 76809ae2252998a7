#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/pipeline_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A pipeline of stages, in one replica or more, of the layers of one graph.
struct StagePlan {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::size_t chunks = 1;        // stages a device: chunks_of(schedule)
  std::size_t microbatches = 1;  // of a replica
  std::size_t slices = 1;        // of each of these
  std::size_t replicas = 1;      // each with its share of the batch,
  std::size_t context = 1;       // or as many in a row with parts of its sequence
  ContextExchange exchange = ContextExchange::all_gather;
  std::size_t tensor = 1;                         // ranks that share the features of each layer of a replica
  bool sequence = false;                          // and its sequence, between products
  std::vector<StageDegrees> degrees = {};         // by device in the row, where they differ; then the three above are 1
  std::size_t zero = 0;                           // ZeRO stage among them, 0 to 3
  IdMap<LayerId, std::size_t> stages = {};        // of each layer, numbered along the pipeline
  IdMap<LayerId, StageRecompute> recompute = {};  // of each layer; empty: nothing
  Collective collective = Collective::ring;       // of replicas and ranks: or whole
  Bytes bucket = {};                              // ParallelPlan::bucket
  std::size_t experts = 1;                        // replicas in a row that hold different experts
  bool fold = false;  // ranks and replicas that do the same are left out (fold.hpp), unless more than these differ
  std::size_t most_classes = static_cast<std::size_t>(-1);
};

/// The plan as a schedule of the problem, and its simulated outcome. With d replicas of t ranks of p stages in a row,
/// rank k of replica r on stage i is devices[(i d + r) t + k]: ranks are neighbours, since they send the most, then
/// replicas of a stage. Where degrees differ, so are they within each stage, and stages stand one behind the other.
///
/// Rewrites are TensorParallel, TiedCopies where stages on several devices read the same parameters, one Replicate (in
/// buckets of one stage each, 32 to a stage at most, fewer of rings of many replicas) or TiedCopies
/// and StageMeshes, Recompute for each block or stage, and Microbatch. A backward op is where its layer is, a
/// colocation group where its first op is. The devices run their tasks (pipeline_tasks) strictly in turn, and updates
/// and the sums of gradients last; where a host has ranks of several replicas, behind all tasks what makes these
/// gradients alone too, lest their sums hold links that ranks need. A pipeline of one stage runs tasks by priority
/// instead, so that gradients are added while the last backward pass runs, and a microbatch begins once the one before
/// has ended (Microbatch::at_once), as in frameworks, whatever it waits for. Where ranks communicate, links carry
/// gradients' sums when they have nothing else to; slices of a microbatch take turns, each with what stands between two
/// of its collectives.
///
/// Throws InputError ("microbatches") as check_microbatches(), "too-large" as apply_rewrites(); OutOfTime.
struct PlannedSchedule {
  Schedule schedule;
  Outcome outcome;                  // where it was asked for
  std::optional<Bytes> spare = {};  // what the fullest device has left, or lacks; nothing where memory cannot bind
};
/// About how many ops the rewrites of such a plan make: copies with accumulations and recomputation, and collectives.
double planned_ops(const Graph& graph, const ParallelPlan& plan, std::size_t microbatches,
                   Collective collective = Collective::ring, bool fold = false);

PlannedSchedule schedule_of(const Problem& problem, const Layers& layers, const StagePlan& plan,
                            const std::vector<DeviceId>& devices, const std::function<bool()>& stop = {},
                            bool simulated = true);

}  // namespace trainyard
