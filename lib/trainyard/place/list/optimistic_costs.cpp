#include "trainyard/place/list/optimistic_costs.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace trainyard {
namespace {

constexpr ScaledTime kNeverEnds = std::numeric_limits<ScaledTime>::max();

}  // namespace

OptimisticCosts::OptimisticCosts(const Problem& problem, const MeanCosts& means, Kind kind)
    : problem_(problem),
      kind_(kind),
      scale_(means.scale()),
      columns_(problem.column_count()),
      one_of_(columns_),
      table_(problem.op_count() * columns_),
      here_(columns_) {
  for (const DeviceId device : problem.devices()) one_of_[problem.column(device)] = device;
  const Graph& graph = problem.graph();
  const auto& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    bool is_exit = graph.before(*at).empty();
    for (const TensorId tensor : graph.outputs(*at))
      for (const OpId reader : graph.consumers(tensor)) {
        precede(*at, reader, means.mean(tensor));
        is_exit = false;
      }
    for (const OpId later : graph.before(*at)) precede(*at, later, 0);
    if (is_exit)
      for (std::size_t column = 0; column < columns_; ++column)
        table_[at->index() * columns_ + column] = own(*at, column);
  }
}

/// Duration that an op itself adds: 0 for optimistic costs, its own for predicted costs.
ScaledTime OptimisticCosts::own(OpId op, std::size_t column) const {
  if (kind_ == Kind::optimistic) return 0;
  const DeviceId device = one_of_[column];
  const Nanoseconds time = problem_.can_run(op, device) ? problem_.duration(op, device) : problem_.shortest(op);
  return ScaledTime{time.count} * scale_;
}

void OptimisticCosts::precede(OpId op, OpId successor, ScaledTime crossing) {
  ScaledTime elsewhere = kNeverEnds;
  for (std::size_t column = 0; column < columns_; ++column) {
    const DeviceId device = one_of_[column];
    here_[column] = problem_.can_run(successor, device)
                        ? table_[successor.index() * columns_ + column] +
                              ScaledTime{problem_.duration(successor, device).count} * scale_ + own(op, column)
                        : kNeverEnds;
    elsewhere = std::min(elsewhere, here_[column]);
  }
  // The minimum over all q can replace that over q != p: if it is attained at p, staying there is cheaper still.
  elsewhere += crossing;
  for (std::size_t column = 0; column < columns_; ++column) {
    ScaledTime& longest = table_[op.index() * columns_ + column];
    longest = std::max(longest, std::min(here_[column], elsewhere));
  }
}

ScaledTime OptimisticCosts::sum(OpId op) const {
  ScaledTime sum = 0;
  for (const DeviceId device : problem_.devices()) sum += at(op, device);
  return sum;
}

AnalyticPlan::Slot OptimisticCosts::choose(AnalyticPlan& plan, OpId op) const {
  std::optional<AnalyticPlan::Slot> best;
  ScaledTime least = 0;
  for (const DeviceId device : plan.candidates(op)) {
    const AnalyticPlan::Slot slot = plan.earliest_slot(op, device);
    const ScaledTime value = ScaledTime{slot.finish.count} * scale_ + at(op, device) - own(op, problem_.column(device));
    if (best && value >= least) continue;
    best = slot;
    least = value;
  }
  return *best;
}

}  // namespace trainyard
