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

/// The class of 1F1B plans with one microbatch size and ZeRO stage whose stages have different degrees, with a lower
/// bound on their step. Let w_i(g) be the time of m microbatches through layer i at degrees g, with the least
/// recomputation at which the layer alone fits, a_i(g) the time of one, devices(g) the devices at g, N all devices, and
/// p the largest possible number of stages. The bound is the largest of
///
///     (1)  sum_i min_g devices(g) w_i(g) / N                           work of the mean device
///     (2)  (sum_i min_g devices(g) (w_i(g) + x b_i(g)) - x N M) / N    the same with a price x of memory, for any x
///     (3)  max_i min_g w_i(g)                                          work of the device with layer i
///     (4)  sum_i min_g a_i(g) / (1 - (1 - 1/m)^p)                      stages one behind the other (plan_bound)
///
/// In (2), b_i(g) are the bytes of layer i on a device with one microbatch in flight, and M is a device's memory.
/// tighten() adds the minimum, over all sequences of stages with different degrees, of the maximum over stages q of
///
///     sum_s<q (f_s + h_s) + w_q + e_q                            forward passes before q; q's work, sum and update
///     sum_s<q (f_s + h_s) + (j + 1) C_q + r (c_q - f_q)          q holds k microbatches, m - 1 = j k + r
///     sum_s<q (c_s + h_s) + sum_1<s<=q g_s + w_q + e_1           q's work, then backward passes and stage 1's update
///
/// Here w_s is the work of stage s, c_s that of one microbatch (f_s forward), e_s the sum of gradients and the update
/// after its tasks, h_s and g_s its sends onward and back, and C_q the round trip of a microbatch from q to the last
/// stage and back. A dynamic program builds the stages from the last one on. Its state is the first layer, the devices
/// left, the number of stages (capped) and whether all are alike; each state keeps a few Pareto-optimal labels of these
/// times. Beyond that number, two labels are merged into their componentwise minimum, which weakens the bound. Stages
/// that reach the limit are pruned. All stages but the last are taken to hold two microbatches.
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
  /// The recomputation with the shortest time at which a stage fits, with `behind` stages behind it.
  std::optional<StageRecomputation> recompute(const StageChoice& choice, std::size_t begin, std::size_t end,
                                              std::size_t behind) const {
    return least_recompute(*costs_, choice, begin, end, std::min(static_cast<std::size_t>(m_), behind + 1), m_ > 1,
                           zero_, options_->by_layer);
  }
  /// Time of all m microbatches; the first adds no gradients.
  Nanoseconds work(const StageCost& stage) const { return m_ * stage.time() - stage.accumulation; }
  /// Lower bounds for the layers before `layer`: devices times time of all microbatches, and time of one microbatch.
  double work_before(std::size_t layer) const { return rest_work_[layer]; }
  Nanoseconds path_before(std::size_t layer) const { return rest_path_[layer]; }

  /// The bound so far; kLongestTime if some layer fits at no degrees.
  Nanoseconds bound() const { return bound_; }
  void know(Nanoseconds bound) { bound_ = std::max(bound_, bound); }
  /// Raises the bound, up to `limit` at most: accounts for the fill and drain of stages, their own devices, their
  /// sends, sums of gradients and updates.
  void tighten(Nanoseconds limit);

 private:
  void count();
  /// A layer on all its devices together: nanoseconds per step, and bytes with one microbatch in flight.
  struct WorkAndMemory {
    double work, memory;
  };
  double memory_of(const StageCost& layer, const StageDegrees& degrees) const;
  double work_within_memory(const std::vector<std::vector<WorkAndMemory>>& layers) const;
  /// Time of one microbatch until its input gradient is done. `alike` is the stage without recomputation, which may
  /// come earlier if parts are apart.
  Nanoseconds path_of(const StageCost& stage, const StageCost& alike) const {
    return inside_ == TaskParts::apart ? alike.forward + alike.input_gradient : stage.time() - stage.accumulation;
  }
  /// Lower bounds for a stage, in nanoseconds. `work` is for all microbatches: -1 if the stage does not fit or reaches
  /// the limit, -2 if not computed yet. `once` is for one microbatch, `before` the part of `work` before the last
  /// microbatch's input gradient is done. For one microbatch, `path` is the time until its input gradient is done,
  /// `forward` its forward pass, `onward` and `back` its sends to the next and the previous stage. `after` is the sum
  /// of gradients and the update after the tasks, `update` the update alone.
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
  double transfer_rate_ = 0;             // nanoseconds per byte between two devices
  std::vector<double> sum_rates_;        // by choice: nanoseconds per byte of weights
};

/// Upper limit on the devices for which different degrees per stage are searched and bounded.
inline constexpr std::size_t kMostWithStageDegrees = 64;

/// One class for each microbatch size and ZeRO stage at which every layer fits. `of_one` are the costs for plans with a
/// single microbatch. Keeps references to costs and options.
std::vector<StageDegreesBound> stage_degrees_classes(const PlanCosts& known, const PlanCosts& of_one,
                                                     const PlanSearchOptions& options, StageChoices& stages,
                                                     TaskParts inside);

/// PlanCosts whose `layer` fills the tables on demand; for one thread.
PlanCosts asking(const PlanCosts& costs, LayerTables& tables);

/// Lower bound, up to `enough`, on the step of every 1F1B plan whose stages have different degrees, from the least
/// costs of LeastCosts. `mean` is a further bound for a microbatch size. Sizes whose layers are not a chain
/// (`is_chain`) are not tightened. Nothing for more than kMostWithStageDegrees devices.
std::optional<Nanoseconds> bound_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options,
                                               LayerTables& tables, Nanoseconds enough,
                                               const std::function<Nanoseconds(std::size_t microbatch)>& mean,
                                               const std::function<bool(std::size_t microbatch)>& is_chain);

}  // namespace trainyard
