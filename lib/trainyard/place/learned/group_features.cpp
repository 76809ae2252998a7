#include "trainyard/place/learned/group_features.hpp"

#include <algorithm>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/kit/successors.hpp"

namespace trainyard::learned {

double mean_time(const Problem& problem, OpId op) {
  double time = 0, able = 0;
  for (const DeviceId device : problem.devices())
    if (problem.can_run(op, device)) {
      time += static_cast<double>(problem.duration(op, device).count);
      ++able;
    }
  return time / able;
}

double mean_transfer_time(const Problem& problem, TensorId tensor) {
  const std::size_t count = problem.device_count();
  if (count < 2) return 0;
  double time = 0;
  for (const DeviceId from : problem.devices())
    time += static_cast<double>(
        problem.transfer_time(tensor, from, DeviceId{static_cast<std::uint32_t>((from.index() + 1) % count)}).count);
  return time / static_cast<double>(count);
}

namespace {

/// Longest path that ends where the op starts, and longest path that starts with the op.
struct Levels {
  IdMap<OpId, double> before, after;
  double longest = 0;
};

Levels levels_of(const Problem& problem, const IdMap<OpId, double>& time) {
  const Graph& graph = problem.graph();
  Levels levels{IdMap<OpId, double>(problem.op_count(), 0.0), IdMap<OpId, double>(problem.op_count(), 0.0)};
  const auto each_next = successors_in(graph);
  const auto& order = graph.topological_order();
  for (const OpId op : order)
    each_next(op,
              [&](OpId next) { levels.before[next] = std::max(levels.before[next], levels.before[op] + time[op]); });
  for (std::size_t i = order.size(); i-- > 0;) {
    const OpId op = order[i];
    each_next(op, [&](OpId next) { levels.after[op] = std::max(levels.after[op], levels.after[next]); });
    levels.after[op] += time[op];
    levels.longest = std::max(levels.longest, levels.after[op]);
  }
  return levels;
}

void divide(learn::Matrix<double>& features, learn::Index column, double by) {
  if (by > 0) features.col(column) /= by;
}

}  // namespace

learn::Matrix<double> group_features(const Problem& problem, const OpGroups& groups) {
  const Graph& graph = problem.graph();
  IdMap<OpId, double> time(problem.op_count());
  double all = 0;
  for (const OpId op : problem.ops()) all += time[op] = mean_time(problem, op);
  const Levels levels = levels_of(problem, time);
  learn::Matrix<double> features =
      learn::Matrix<double>::Zero(learn::index(groups.ops.size()), learn::index(kStaticFeatures));
  features.col(3).setConstant(levels.longest);
  std::vector<double> sending(groups.ops.size());
  for (const OpId op : problem.ops()) {
    const std::uint32_t group = groups.of[op];
    auto row = features.row(group);
    row(0) += time[op];
    row(2) += static_cast<double>(problem.resident_bytes(op).count);
    row(3) = std::min(row(3), levels.before[op]);
    row(4) = std::max(row(4), levels.after[op]);
    for (const TensorId tensor : graph.outputs(op)) {
      const auto readers = graph.consumers(tensor);
      if (std::ranges::all_of(readers, [&](OpId reader) { return groups.of[reader] == group; })) continue;
      row(1) += static_cast<double>(graph.bytes(tensor).count);
      sending[group] += mean_transfer_time(problem, tensor);
    }
  }
  for (std::size_t group = 0; group < groups.ops.size(); ++group) {
    auto row = features.row(learn::index(group));
    if (sending[group] > 0) row(5) = sending[group] / (sending[group] + row(0));
    if (all > 0) row(6) = std::min(1.0, row(0) * static_cast<double>(problem.device_count()) / all);
  }
  if (groups.ops.empty()) return features;
  for (const learn::Index column : {0, 1, 2}) divide(features, column, features.col(column).maxCoeff());
  for (const learn::Index column : {3, 4}) divide(features, column, levels.longest);
  return features;
}

}  // namespace trainyard::learned
