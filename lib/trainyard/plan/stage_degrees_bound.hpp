#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/plan/schedule_graph.hpp"
#include "trainyard/plan/stage_choices.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {

/// The plans of 1F1B of one microbatch and ZeRO stage whose stages have different degrees, and what none of them is
/// below. With w_i(g) = m times the passes of layer i at degrees g, which has devices(g), the least recomputation with
/// which it fits alone included, and a_i(g) those passes once, on N devices and in no more than p stages:
///
///     sum_i min_g devices(g) w_i(g) / N                  the mean device works that long
///     (sum_i min_g devices(g) (w_i(g) + x b_i(g)) - x N M) / N
///     max_i min_g w_i(g)                                 so does the one that has layer i
///     sum_i min_g a_i(g) / (1 - (1 - 1/m)^p)             stages one behind the other, as of plan_bound()
///
/// the second for any price x of a byte, b_i(g) being those of layer i on a device with one microbatch in flight, M its
/// memory; and, where it is tightened, the least over all stages that differ of the most, over stages q, of
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
class StageDegreesBound {
 public:
  /// Keeps references to the costs and the options.
  StageDegreesBound(const PlanCosts& costs, const PlanSearchOptions& options, std::vector<StageChoice> choices,
                    std::size_t microbatch, std::size_t zero, TaskParts inside)
      : costs_(&costs),
        options_(&options),
        choices_(std::move(choices)),
        microbatch_(microbatch),
        zero_(zero),
        inside_(inside),
        m_(static_cast<std::int64_t>(costs.batch / microbatch)) {
    count();
  }

  const PlanCosts& costs() const { return *costs_; }
  const PlanSearchOptions& options() const { return *options_; }
  const std::vector<StageChoice>& choices() const { return choices_; }
  std::size_t microbatch() const { return microbatch_; }
  std::size_t zero() const { return zero_; }
  std::int64_t microbatches() const { return m_; }

  Shards shards(const StageDegrees& degrees) const { return {zero_, degrees.data}; }
  /// The least with which a stage that has so many behind it fits.
  std::optional<StageRecomputation> recompute(const StageChoice& choice, std::size_t begin, std::size_t end,
                                              std::size_t behind) const {
    return least_recompute(*costs_, choice, begin, end, std::min(static_cast<std::size_t>(m_), behind + 1), m_ > 1,
                           zero_, options_->by_layer);
  }
  /// Time of all microbatches: gradients are added but for the first.
  Nanoseconds work(const StageCost& stage) const { return m_ * stage.time() - stage.accumulation; }
  /// Layers before this one, at least: devices times time of all microbatches, and time of one.
  double work_before(std::size_t layer) const { return rest_work_[layer]; }
  Nanoseconds path_before(std::size_t layer) const { return rest_path_[layer]; }

  Nanoseconds bound() const { return bound_; }
  void know(Nanoseconds bound) { bound_ = std::max(bound_, bound); }
  /// Has the bound know that stages fill and drain, each on its own devices, send, add up gradients and update; until
  /// it is no less than `limit`.
  void tighten(Nanoseconds limit);

 private:
  void count();
  /// A layer on all its devices: nanoseconds of the step, and bytes with one microbatch in flight.
  struct WorkAndMemory {
    double work, memory;
  };
  double memory_of(const StageCost& layer, const StageDegrees& degrees) const;
  double work_within_memory(const std::vector<std::vector<WorkAndMemory>>& layers) const;
  /// One microbatch's time, until its gradient is there; `alike` without recomputation.
  Nanoseconds path_of(const StageCost& stage, const StageCost& alike) const {
    return inside_ == TaskParts::apart ? alike.forward + alike.input_gradient : stage.time() - stage.accumulation;
  }
  /// Nanoseconds of a stage, at least: of all microbatches, of one, of what of all is done before the last one's
  /// gradient is there, of one until its gradient is there and its forward pass, of what it sends of one to the stages
  /// behind and before it, and behind its tasks of its gradients' sum and its update, or of the latter alone. `work` is
  /// below zero where the stage does not fit, or takes the limit.
  struct StageTimes {
    double work = -2, once = 0, before = 0, path = 0, forward = 0, onward = 0, back = 0, after = 0, update = 0;
  };
  const StageTimes& stage_times(std::size_t choice, std::size_t begin, std::size_t end);
  void know_rates();
  Nanoseconds least_of_stages();

  const PlanCosts* costs_;
  const PlanSearchOptions* options_;
  std::vector<StageChoice> choices_;
  std::size_t microbatch_, zero_;
  TaskParts inside_;
  std::int64_t m_;
  Nanoseconds bound_ = kLongestTime, limit_ = kLongestTime;
  std::vector<double> rest_work_;
  std::vector<Nanoseconds> rest_path_;
  std::vector<StageTimes> stage_times_;  // by choice, first and last layer
  double transfer_rate_ = 0;
  std::vector<double> sum_rates_;  // by choice
};

/// Devices at most of which stages' degrees are looked for and bounded.
inline constexpr std::size_t kMostWithStageDegrees = 64;

/// One bound for each microbatch and ZeRO stage that some degrees let fit; `of_one`: the costs of plans of one
/// microbatch. Keeps references to costs and options.
std::vector<StageDegreesBound> stage_degrees_classes(const PlanCosts& known, const PlanCosts& of_one,
                                                     const PlanSearchOptions& options, StageChoices& stages,
                                                     TaskParts inside);

/// Costs whose layers are worked out, and kept in the tables, as they are asked for.
PlanCosts asking(const PlanCosts& costs, LayerTables& tables);

/// No plan of 1F1B whose stages have different degrees takes less than this, or than `enough`, with least costs
/// (least_step.hpp), and `mean` of each microbatch, or where that is no chain no more; on more devices than are
/// searched nothing.
std::optional<Nanoseconds> bound_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options,
                                               LayerTables& tables, Nanoseconds enough,
                                               const std::function<Nanoseconds(std::size_t microbatch)>& mean,
                                               const std::function<bool(std::size_t microbatch)>& is_chain);

}  // namespace trainyard
