#include "trainyard/simulate/completion.hpp"

#include <algorithm>

namespace trainyard {

IdMap<ModelId, Nanoseconds> completion_times(const Models& models, const Timeline& timeline) {
  IdMap<ModelId, Nanoseconds> times(models.size());
  for (const OpId op : timeline.ops.ids()) {
    Nanoseconds& time = times[models.of[op]];
    time = std::max(time, timeline.ops[op].end);
  }
  return times;
}

Nanoseconds total_completion(const Models& models, const Timeline& timeline) {
  Nanoseconds sum{0};
  for (const Nanoseconds time : completion_times(models, timeline)) sum += time;
  return sum;
}

}  // namespace trainyard
