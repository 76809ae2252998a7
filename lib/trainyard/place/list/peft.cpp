#include "trainyard/place/list/peft.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {
namespace {

/// OCT in the scale of the means, op x class of devices: devices of one class have the same durations, hence the same
/// column of the table.
class OptimisticCosts {
 public:
  OptimisticCosts(const Problem& problem, const MeanCosts& means)
      : problem_(problem), columns_(problem.column_count()), one_of_(columns_), table_(problem.op_count() * columns_) {
    for (const DeviceId device : problem.devices()) one_of_[problem.column(device)] = device;
    std::vector<ScaledTime> here(columns_);
    const auto& order = problem.graph().topological_order();
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      for (const TensorId tensor : problem.graph().outputs(*at))
        for (const OpId reader : problem.graph().consumers(tensor))
          precede(*at, reader, means.mean(tensor), means.scale(), here);
      for (const OpId later : problem.graph().before(*at)) precede(*at, later, 0, means.scale(), here);
    }
  }

  ScaledTime at(OpId op, DeviceId device) const { return table_[op.index() * columns_ + problem_.column(device)]; }

 private:
  static constexpr ScaledTime kNever = std::numeric_limits<ScaledTime>::max();

  void precede(OpId op, OpId successor, ScaledTime crossing, ScaledTime scale, std::vector<ScaledTime>& here) {
    ScaledTime elsewhere = kNever;
    for (std::size_t column = 0; column < columns_; ++column) {
      const DeviceId device = one_of_[column];
      here[column] = problem_.can_run(successor, device)
                         ? table_[successor.index() * columns_ + column] +
                               ScaledTime{problem_.duration(successor, device).count} * scale
                         : kNever;
      elsewhere = std::min(elsewhere, here[column]);
    }
    // The least over all q may stand for that over q != p: where it is at p, staying there is cheaper still.
    elsewhere += crossing;
    for (std::size_t column = 0; column < columns_; ++column) {
      ScaledTime& longest = table_[op.index() * columns_ + column];
      longest = std::max(longest, std::min(here[column], elsewhere));
    }
  }

  const Problem& problem_;
  std::size_t columns_;
  std::vector<DeviceId> one_of_;
  std::vector<ScaledTime> table_;
};

}  // namespace

Schedule peft(const Problem& problem, const ListOptions& options) {
  const MeanCosts means{problem};
  const OptimisticCosts costs{problem, means};
  IdMap<OpId, ScaledTime> priority(problem.op_count());
  for (const OpId op : problem.ops())
    for (const DeviceId device : problem.devices()) priority[op] += costs.at(op, device);
  const std::vector<OpId> order = by_priority_when_free(problem, priority);

  const auto choose = [&](AnalyticPlan& plan, OpId op) {
    std::optional<AnalyticPlan::Slot> best;
    ScaledTime least = 0;
    for (const DeviceId device : plan.candidates(op)) {
      const AnalyticPlan::Slot slot = plan.earliest_slot(op, device);
      const ScaledTime value = ScaledTime{slot.finish.count} * means.scale() + costs.at(op, device);
      if (best && value >= least) continue;
      best = slot;
      least = value;
    }
    return *best;
  };
  return list_schedule(problem, options, [&](AnalyticPlan& plan) {
    for (const OpId op : order) plan.place(op, choose(plan, op));
    return order;
  });
}

}  // namespace trainyard
