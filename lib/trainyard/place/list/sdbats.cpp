#include "trainyard/place/list/sdbats.hpp"

#include <cmath>

#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {
namespace {

/// Standard deviation of the op's durations, in ns. IEEE square roots are correctly rounded, so it is the same on every
/// machine.
double deviation(const Problem& problem, OpId op) {
  double count = 0, sum = 0, squares = 0;
  const auto each_time = [&](const auto& visit) {
    for (const DeviceId device : problem.devices())
      if (problem.can_run(op, device)) visit(static_cast<double>(problem.duration(op, device).count));
  };
  each_time([&](double time) {
    ++count;
    sum += time;
  });
  each_time([&](double time) { squares += (time - sum / count) * (time - sum / count); });
  return std::sqrt(squares / count);
}

}  // namespace

Schedule sdbats(const Problem& problem, const ListOptions& options) {
  const MeanCosts means{problem};
  IdMap<OpId, ScaledTime> weights(problem.op_count());
  for (const OpId op : problem.ops())
    weights[op] = static_cast<ScaledTime>(deviation(problem, op) * static_cast<double>(means.scale()));
  return list_in_order(problem, options, by_descending_rank(problem, upward_ranks(problem, means, weights)));
}

}  // namespace trainyard
