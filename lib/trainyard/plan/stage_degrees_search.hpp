#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

struct StageDegreesFound {
  std::vector<RatedPlan> best;  // all within memory, of different degrees or microbatch
  Nanoseconds bound;            // no plan of the dimensions searched within memory takes less; kLongestTime: none
  std::uint64_t evaluations = 0;
  bool exact = false;  // every plan that could be shorter than the best and `least` was looked at
};

/// The best plans of 1F1B whose stages have different degrees. Of the others' best step, `least`, all are left out that
/// cannot be shorter.
///
/// Microbatch u of all replicas, m = batch / u of them, and the ZeRO stage are enumerated in the order of their bounds.
/// With w_i(g) = m times the passes of layer i at degrees g, which has devices(g), the least recomputation with which
/// it fits alone included, and a_i(g) those passes once, on N devices and in no more than p stages:
///
///     sum_i min_g devices(g) w_i(g) / N                  the mean device works that long
///     (sum_i min_g devices(g) (w_i(g) + x b_i(g)) - x N M) / N
///     max_i min_g w_i(g)                                 so does the one that has layer i
///     sum_i min_g a_i(g) / (1 - (1 - 1/m)^p)             stages one behind the other, as of plan_bound()
///
/// the second for any price x of a byte, b_i(g) being those of layer i on a device with one microbatch in flight, M its
/// memory; and, before one is searched, the least over all stages that differ of the most, over stages q, of
///
///     sum_s<q (f_s + h_s) + w_q + e_q                            forward passes before it, its work, sum and update
///     sum_s<q (f_s + h_s) + (j + 1) C_q + r (c_q - f_q)          it holds k microbatches, m - 1 = j k + r
///     sum_s<q (c_s + h_s) + sum_1<s<=q g_s + w_q + e_1           backward passes before it, and the first's update
///
/// with work w_s, c_s of a microbatch (f_s forward), sends of h_s onward and g_s back, and C_q the way of a microbatch
/// from q on and back. From the last stage on: of the stages from a layer on, by devices left, their number (as far as
/// it is told apart) and whether all have been alike, the few least of these times and ways; where there would be more,
/// two are taken for what is less than either. A stage that takes as long as what is known already is left out. All but
/// the last stage hold two microbatches.
///
/// Stages are chosen from the last one on: for a number of stages, their first layer and the devices left
/// before them, the few best stages found (all, where all plans are few thousand) are each extended by a stage of every
/// length and degrees, with the least recomputation that fits its min(m, number) microbatches in flight. The best
///
///     sum of (t_i + transfers) + (m - 1) max(t_i, transfers, sum from i on / stages from i on)
///     + what sums of gradients and updates end later
///
/// with the work of the layers that are left on the devices that are left. The best complete ones are run (run_plan),
/// and improved by single moves of a cut, of a stage's degrees, and of degrees or devices between two stages. Devices
/// of a stage number up to eight, or a power of two; on more than 64 devices nothing is searched, and there is no
/// bound.
StageDegreesFound search_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options, LayerTables& tables,
                                       std::optional<Nanoseconds> least);

/// No plan of 1F1B whose stages have different degrees takes less than this, or than `enough`, with least costs
/// (least_step.hpp), and `mean` of each microbatch, or where that is no chain no more; on more devices than are
/// searched nothing.
std::optional<Nanoseconds> bound_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options,
                                               LayerTables& tables, Nanoseconds enough,
                                               const std::function<Nanoseconds(std::size_t microbatch)>& mean,
                                               const std::function<bool(std::size_t microbatch)>& is_chain);

}  // namespace trainyard
