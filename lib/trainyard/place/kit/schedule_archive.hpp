#pragma once

#include "trainyard/core/archive.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/problem/schedule.hpp"

// Archive functions of schedules, for Team::share().
namespace trainyard {

template <class Archive>
void archive_fields(Archive& archive, SplitOp& split) {
  archive(split.op, split.dimension, split.parts);
}
template <class Archive>
void archive_fields(Archive& archive, Replicate& replicate) {
  archive(replicate.replicas, replicate.collective, replicate.per_node, replicate.zero, replicate.bucket,
          replicate.stages, replicate.fold, replicate.classes, replicate.class_of, replicate.experts, replicate.context,
          replicate.exchange);
}
template <class Archive>
void archive_fields(Archive& archive, StageMesh& mesh) {
  archive(mesh.ops, mesh.replicas, mesh.ranks, mesh.sequence);
}
template <class Archive>
void archive_fields(Archive& archive, StageMeshes& meshes) {
  archive(meshes.stages, meshes.collective, meshes.zero, meshes.bucket);
}
template <class Archive>
void archive_fields(Archive& archive, Recompute& recompute) {
  archive(recompute.ops, recompute.also);
}
template <class Archive>
void archive_fields(Archive& archive, Offload& away) {
  archive(away.tensor, away.away_before, away.back_after);
}
template <class Archive>
void archive_fields(Archive& archive, TiedCopies& tied) {
  archive(tied.copies);
}
template <class Archive>
void archive_fields(Archive& archive, LayerDegree& tensor) {
  archive(tensor.ranks, tensor.sequence, tensor.context, tensor.exchange, tensor.experts, tensor.slices);
}
template <class Archive>
void archive_fields(Archive& archive, StageRecomputation& recompute) {
  archive(recompute.what, recompute.layers);
}
template <class Archive>
void archive_fields(Archive& archive, StageDegrees& degrees) {
  archive(degrees.data, degrees.tensor);
}
template <class Archive>
void archive_fields(Archive& archive, ParallelPlan& plan) {
  archive(plan.data, plan.tensor, plan.sequence, plan.degrees, plan.cuts, plan.chunks, plan.microbatch, plan.recompute,
          plan.schedule, plan.zero, plan.experts, plan.context, plan.exchange, plan.slices, plan.bucket, plan.order);
}
template <class Archive>
void archive_fields(Archive& archive, Plan& plan) {
  archive(plan.makespan, plan.start);
}
template <class Archive>
void archive_fields(Archive& archive, PlanBound& bound) {
  archive(bound.simulated, bound.estimated);
}
/// All fields except Schedule::rule, the caller's own rule.
template <class Archive>
void archive_fields(Archive& archive, Schedule& schedule) {
  archive(schedule.placement, schedule.policy, schedule.priority, schedule.order, schedule.urgent_links, schedule.plan,
          schedule.rewrites, schedule.placer, schedule.seed, schedule.search, schedule.parallel, schedule.plan_bound,
          schedule.notes);
}
template <class Archive>
void archive_fields(Archive& archive, Ordered& ordered) {
  archive(ordered.schedule, ordered.outcome, ordered.evaluations);
}

}  // namespace trainyard
