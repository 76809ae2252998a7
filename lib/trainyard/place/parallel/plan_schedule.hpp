#pragma once

#include <cstddef>
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
  std::size_t chunks = 1;        // stages per device: chunks_of(schedule)
  std::size_t microbatches = 1;  // per replica
  std::size_t slices = 1;        // per microbatch
  std::size_t replicas = 1;      // each with its share of the batch; if this is above 1,
  std::size_t context = 1;       // as many consecutive ones share it by parts of the sequence
  ContextExchange exchange = ContextExchange::all_gather;
  std::size_t tensor = 1;                         // ranks that share the features of each layer of a replica
  bool sequence = false;                          // ranks share the sequence too, between products
  std::vector<StageDegrees> degrees = {};         // by device in the row, if they differ; then d and t are 1
  std::size_t zero = 0;                           // ZeRO stage of the replicas, 0 to 3
  IdMap<LayerId, std::size_t> stages = {};        // of each layer, numbered along the pipeline
  IdMap<LayerId, StageRecompute> recompute = {};  // of each layer; empty: nothing
  Collective collective = Collective::ring;       // of replicas and ranks: ring or whole
  Bytes bucket = {};                              // ParallelPlan::bucket
  std::size_t experts = 1;                        // consecutive replicas that hold different experts
  bool fold = false;  // leave out ranks and replicas that do the same (fold.hpp), up to most_classes
  std::size_t most_classes = static_cast<std::size_t>(-1);
};

/// The schedule of a plan.
struct PlannedSchedule {
  Schedule schedule;
  Outcome outcome;                  // if simulated
  std::optional<Bytes> spare = {};  // memory left on the fullest device; negative: lacking; none: never short
};
/// Estimate of the ops after a plan's rewrites: copies with accumulations and recomputation, and collectives.
double planned_ops(const Graph& graph, const ParallelPlan& plan, std::size_t microbatches,
                   Collective collective = Collective::ring, bool fold = false);

/// The plan as a schedule of the problem, with its outcome if `simulated`. With d replicas of t ranks and p stages in a
/// row, rank k of replica r on stage i is devices[(i d + r) t + k]. Ranks are neighbours, since they send the most,
/// then the replicas of a stage. If degrees differ by stage, this holds within each stage, and the stages follow each
/// other.
///
/// The rewrites are TensorParallel; TiedCopies if stages on several devices read the same parameters; one Replicate (in
/// buckets of one stage each, at most 32 to a stage, fewer for rings of many replicas), or TiedCopies and StageMeshes
/// if degrees differ by stage; Recompute for each block or stage; and Microbatch. A backward op is on the device of its
/// layer, a colocation group on that of its first op. The devices run their tasks (pipeline_tasks) strictly in turn,
/// then updates and gradient sums. If a host has ranks of several replicas, the ops that make only these gradients also
/// run after all tasks, so that the sums do not hold links that ranks need.
///
/// A pipeline of one stage runs tasks by priority instead, so that gradients are added during the last backward pass. A
/// microbatch then begins only once the one before has ended (Microbatch::at_once), as in frameworks, even if devices
/// are idle meanwhile. If ranks communicate, links carry gradient sums only when they are otherwise idle. Slices of a
/// microbatch take turns, each with a segment between two of its collectives.
///
/// Throws InputError "microbatches" as check_microbatches() does, "too-large" as apply_rewrites() and fold_classes()
/// do; OutOfTime once `stop` returns true.
PlannedSchedule schedule_of(const Problem& problem, const Layers& layers, const StagePlan& plan,
                            const std::vector<DeviceId>& devices, const std::function<bool()>& stop = {},
                            bool simulated = true);

}  // namespace trainyard
