#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// Whether plans like it are searched for with ZeRO 2 and 3, whose sums and gathers of each microbatch hold up other
/// collectives.
inline bool may_share_all(const ParallelPlan& plan) {
  return plan.stages() == 1 && plan.replicas() > 1 && !plan.layer_degree().communicates();
}

/// visit(plan): one plan, with equal cuts, of each choice of degrees, microbatch, slices, schedule and ZeRO stage.
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
          if (zero > (data * tensor.context > 1 ? options.most_zero : 0)) break;
          if (zero > 0 && tensor.experts > 1 && tensor.experts != data) break;
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
          if (zero > 1 && (p > 1 || !may_share_all(plan))) break;
          for (std::size_t s = 1; s < p * v; ++s) plan.cuts.push_back(s * costs.layers / (p * v));
          for (std::size_t slices = 2; p == 1 && tensor.communicates() && slices <= options.most_slices; ++slices) {
            if (microbatch % slices != 0) continue;
            plan.slices = slices;
            visit(plan);
          }
          plan.slices = 1;
          visit(std::move(plan));
        }
      }
    }
  };
  for (const LayerDegree tensor : costs.layer_degrees) {
    // Ranks that share a sequence or experts share what lies between products too, where they can.
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

}  // namespace trainyard
