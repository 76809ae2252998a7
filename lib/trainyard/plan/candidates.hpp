#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <vector>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/least_memory.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// Highest ZeRO stage searched for the plan's degrees, schedule and slices.
inline std::size_t most_zero(const PlanSearchOptions& options, const ParallelPlan& plan) {
  if (plan.replicas() == 1) return 0;
  const LayerDegree degree = plan.layer_degree();
  if (plan.devices_in_row() == 1 && !degree.communicates()) return options.most_zero;
  // The estimate does not model how slices, or the gathers of several chunks, delay each other.
  const std::size_t most = plan.slices > 1 ? 1 : plan.chunks > 1 ? 2 : 3;
  return std::min({most, options.most_zero, options.most_zero_with_ranks});
}

/// Calls visit(plan) once for each combination of degrees, microbatch, slices, schedule and ZeRO stage. Each plan is
/// cut into stages of equal numbers of layers.
template <class Visit>
void each_candidate(const PlanCosts& costs, const PlanSearchOptions& options, const Visit& visit) {
  const auto of_degrees = [&](std::size_t data, LayerDegree tensor, std::size_t p, std::size_t microbatch) {
    const std::size_t m = costs.batch / data / microbatch;
    for (const PipelineSchedule schedule : options.schedules) {
      if (p == 1 && schedule != PipelineSchedule::one_f_one_b) continue;
      const bool interleaved = schedule == PipelineSchedule::interleaved;
      if ((interleaved && m % p != 0) || (schedule == PipelineSchedule::dualpipe_v && m < 2 * p)) continue;
      for (std::size_t v = chunks_of(schedule); v <= (interleaved ? options.most_chunks : chunks_of(schedule)); ++v) {
        if (p * v > costs.layers) break;
        for (const std::size_t zero : std::initializer_list<std::size_t>{0, 1, 2, 3}) {
          ParallelPlan plan{.data = data,
                            .tensor = tensor.ranks,
                            .context = tensor.context,
                            .exchange = tensor.exchange,
                            .sequence = tensor.sequence,
                            .chunks = v,
                            .microbatch = microbatch,
                            .schedule = schedule,
                            .zero = zero,
                            .experts = tensor.experts};
          for (std::size_t s = 1; s < p * v; ++s) plan.cuts.push_back(s * costs.layers / (p * v));
          if (zero > most_zero(options, plan)) break;
          for (std::size_t slices = 2; p == 1 && tensor.communicates() && slices <= options.most_slices; ++slices) {
            if (microbatch % slices != 0) continue;
            plan.slices = slices;
            if (zero <= most_zero(options, plan)) visit(plan);
          }
          plan.slices = 1;
          visit(std::move(plan));
        }
      }
    }
  };
  for (const LayerDegree tensor : costs.layer_degrees) {
    // Ranks that share a sequence or experts also use sequence parallelism between the products if it is available.
    LayerDegree more = tensor;
    more.sequence = true;
    if (tensor.context * tensor.experts > 1 && !tensor.sequence &&
        std::ranges::find(costs.layer_degrees, more) != costs.layer_degrees.end())
      continue;
    for (const std::size_t data : divisors(costs.batch)) {
      if (data % tensor.experts != 0) continue;
      const auto microbatches = divisors(costs.batch / data);
      for (std::size_t p = 1; p <= costs.layers && p * data * tensor.context * tensor.ranks <= costs.devices; ++p)
        for (const std::size_t microbatch : microbatches) of_degrees(data, tensor, p, microbatch);
    }
  }
}

/// A choice of degrees, microbatch, ZeRO stage and schedule, and a lower bound on the step of every plan with it.
/// `plan` has equal cuts.
struct PlanCandidate {
  ParallelPlan plan;
  Nanoseconds bound;
};

struct BoundedCandidates {
  std::vector<PlanCandidate> all = {};  // in the order of each_candidate()
  bool cut_short = false;               // the time limit ended the enumeration early; `all` then has at least one
};

/// Returns the candidates that pass `memory` and PlanSearchOptions::allowed, except those with bound kLongestTime
/// (infeasible). Several threads call `bound` at once; `tables` then hold the layer costs of its plan.
BoundedCandidates bounded_candidates(const PlanCosts& costs, const PlanSearchOptions& options, LayerTables& tables,
                                     LeastMemory& memory, const std::function<Nanoseconds(const ParallelPlan&)>& bound);

}  // namespace trainyard
