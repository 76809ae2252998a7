#include "trainyard/place/judge/completion_evaluator.hpp"

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/simulate/completion.hpp"

namespace trainyard {

CompletionOutcome CompletionEvaluator::outcome(const Schedule& schedule) {
  const MemoryPeaks& peaks = simulation_.peaks(schedule);
  completion_times(models_, simulation_.spans(), ends_);
  Nanoseconds total{0};
  for (const Nanoseconds end : ends_) total += end;
  return {excess_of(problem(), peaks), total};
}

std::vector<OpId> CompletionEvaluator::by_start() const {
  const IdMap<OpId, Span>& spans = simulation_.spans();
  std::vector<OpId> order;
  for (const OpId op : spans.ids()) order.push_back(op);
  sort_by(order, [&](OpId op) { return spans[op].start; });
  return order;
}

CompletionOutcome completion_outcome(const Problem& problem, const Models& models, const Schedule& schedule) {
  return CompletionEvaluator{problem, models}.outcome(schedule);
}

}  // namespace trainyard
