#include "trainyard/bound/completion.hpp"

#include <algorithm>
#include <vector>

namespace trainyard {

Nanoseconds completion_bound(const Problem& problem, const Models& models) {
  check_models(models, problem.op_count());
  const Graph& graph = problem.graph();
  std::vector<std::int64_t> longest(models.size(), 0), work(models.size(), 0);
  IdMap<OpId, std::int64_t> end(problem.op_count(), 0);
  for (const OpId op : graph.topological_order()) {
    std::int64_t start = 0;
    for (const TensorId tensor : graph.inputs(op)) start = std::max<std::int64_t>(start, end[graph.producer(tensor)]);
    for (const OpId earlier : graph.after(op)) start = std::max<std::int64_t>(start, end[earlier]);
    end[op] = start + problem.shortest(op).count;
    const std::size_t model = models.of[op].index();
    longest[model] = std::max<std::int64_t>(longest[model], end[op]);
    work[model] += problem.shortest(op).count;
  }
  std::ranges::sort(longest);
  std::ranges::sort(work);
  const auto devices = static_cast<std::int64_t>(problem.device_count());
  std::int64_t sum = 0, done = 0;
  for (std::size_t j = 0; j < models.size(); ++j) {
    done += work[j];
    sum += std::max(longest[j], (done + devices - 1) / devices);
  }
  return Nanoseconds{sum};
}

}  // namespace trainyard
