#include "trainyard/simulate/completion.hpp"

#include <algorithm>

namespace trainyard {

void completion_times(const Models& models, const IdMap<OpId, Span>& ops, IdMap<ModelId, Nanoseconds>& times) {
  times.assign(models.size(), Nanoseconds{0});
  for (const OpId op : ops.ids()) times[models.of[op]] = std::max(times[models.of[op]], ops[op].end);
}

IdMap<ModelId, Nanoseconds> completion_times(const Models& models, const Timeline& timeline) {
  check_models(models, timeline.ops.size());
  IdMap<ModelId, Nanoseconds> times;
  completion_times(models, timeline.ops, times);
  return times;
}

}  // namespace trainyard
