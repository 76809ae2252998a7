#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

Problem::Problem(Graph graph, const Problem& of, const IdMap<OpId, OpId>& original) {
  const Data& from = *of.data_;
  auto data = std::make_shared<Data>();
  data->graph = std::move(graph);
  data->cluster = from.cluster;
  data->rewrites = from.rewrites;
  data->costs = from.costs;
  data->columns = from.columns;
  data->column = from.column;
  data->sources = from.sources;
  data->rates = from.rates;
  data->transfers = from.transfers;
  const Graph& g = data->graph;
  assert(original.size() == g.op_count());
  data->durations.reserve(g.op_count() * from.columns);
  data->source.reserve(g.op_count() * from.columns);
  data->byte_times.reserve(g.tensor_count() * from.rates);
  IdMap<OpId, std::size_t> copies(from.graph.op_count(), 0);
  for (const OpId op : g.ops()) {
    const OpId like = original[op];
    if (like.is_none()) {
      data->durations.resize(data->durations.size() + from.columns, Nanoseconds{0});
      data->source.resize(data->source.size() + from.columns, 0);  // source 0: times given by the graph
      if (!from.sensitivities.empty()) data->sensitivities.resize(data->sensitivities.size() + from.columns, 0);
      assert(g.outputs(op).empty());
      continue;
    }
    ++copies[like];
    const auto row = static_cast<std::ptrdiff_t>(like.index() * from.columns);
    const auto width = static_cast<std::ptrdiff_t>(from.columns);
    data->durations.insert(data->durations.end(), from.durations.begin() + row, from.durations.begin() + row + width);
    if (!from.sensitivities.empty())
      data->sensitivities.insert(data->sensitivities.end(), from.sensitivities.begin() + row,
                                 from.sensitivities.begin() + row + width);
    data->source.insert(data->source.end(), from.source.begin() + row, from.source.begin() + row + width);
    assert(g.outputs(op).size() == from.graph.outputs(like).size());
    for (const TensorId tensor : from.graph.outputs(like)) {
      const auto first = from.byte_times.begin() + static_cast<std::ptrdiff_t>(tensor.index() * from.rates);
      data->byte_times.insert(data->byte_times.end(), first, first + static_cast<std::ptrdiff_t>(from.rates));
    }
  }

  const auto most = static_cast<std::int64_t>(copies.empty() ? 0 : *std::ranges::max_element(copies));
  if (from.horizon.count > 0 && most > kLongestTime.count / from.horizon.count)
    refuse("too-large",
           fmt::format("the times of {} copies of graph '{}' on cluster '{}' can add up to more than 2^62 ns "
                       "(146 years)",
                       most, g.name(), data->cluster.name()),
           "take fewer copies");
  data->horizon = from.horizon * most;

  data->groups = ColocationGroups{g};
  data_ = std::move(data);
}

}  // namespace trainyard
