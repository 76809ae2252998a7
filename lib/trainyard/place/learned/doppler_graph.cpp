#include "trainyard/place/learned/doppler_graph.hpp"

#include <optional>

namespace trainyard::learned {
namespace {

/// The longest path on from an op.
struct Way {
  double length = 0;
  std::optional<OpId> next;

  void consider(OpId op, double through) {
    if (next && through <= length) return;
    length = through;
    next = op;
  }
};

learn::RowLists group_paths(const PlacementTask& task, const IdMap<OpId, Way>& ways) {
  learn::RowLists lists;
  std::vector<std::size_t> seen(task.size(), task.size());  // the group whose path passed here last
  for (std::size_t group = 0; group < task.size(); ++group) {
    for (std::optional<OpId> op = task.groups.ops[group].front(); op; op = ways[*op].next) {
      const std::uint32_t on = task.groups.of[*op];
      if (seen[on] != group) lists.add_item(on);
      seen[on] = group;
    }
    lists.end_row();
  }
  return lists;
}

}  // namespace

DopplerGraph::DopplerGraph(const PlacementTask& task) : inputs(task.problem.op_count()), outputs(inputs.size()) {
  const Problem& problem = task.problem;
  const Graph& graph = problem.graph();
  IdMap<OpId, double> time(problem.op_count());
  for (const OpId op : problem.ops()) {
    time[op] = mean_time(problem, op);
    for (const DeviceId device : problem.devices())
      times.push_back(problem.can_run(op, device) ? static_cast<double>(problem.duration(op, device).count) : time[op]);
    for (const TensorId tensor : graph.outputs(op)) {
      const double cost = mean_transfer_time(problem, tensor);
      for (const OpId reader : graph.consumers(tensor)) inputs[reader].push_back({op, cost});
    }
    for (const OpId later : graph.before(op)) inputs[later].push_back({op, 0});
  }
  for (const OpId op : problem.ops())
    for (const Input& input : inputs[op]) outputs[input.op].push_back(op);

  IdMap<OpId, Way> down(problem.op_count()), up(problem.op_count());
  const auto& order = graph.topological_order();
  for (const OpId op : order)
    for (const Input& input : inputs[op]) up[op].consider(input.op, input.cost + up[input.op].length + time[input.op]);
  for (std::size_t i = order.size(); i-- > 0;)
    for (const Input& input : inputs[order[i]])
      down[input.op].consider(order[i], input.cost + down[order[i]].length + time[order[i]]);
  bottom_path = group_paths(task, down);
  top_path = group_paths(task, up);

  features = learn::Matrix<double>::Zero(learn::index(task.size()), learn::index(kFeatures));
  std::vector<std::vector<double>> out_times(task.size());  // parallel to task.children
  for (std::uint32_t group = 0; group < task.size(); ++group) {
    const OpId first = task.groups.ops[group].front();
    for (const OpId op : task.groups.ops[group]) features(group, 0) += time[op];
    features(group, 1) = time[first] + down[first].length;
    features(group, 2) = time[first] + up[first].length;
    for (std::size_t i = 0; i < task.parents[group].size(); ++i) {
      const double cost = task.parent_times[group][i];
      features(group, 3) += cost;
      features(task.parents[group][i], 4) += cost;
      out_times[task.parents[group][i]].push_back(cost);  // children ascend with the groups
    }
  }
  std::vector<double> costs;
  const auto add_message = [&](std::uint32_t from, double cost) {
    inbox.add_item(static_cast<std::uint32_t>(senders.size()));
    senders.push_back(from);
    costs.push_back(cost);
  };
  for (std::uint32_t group = 0; group < task.size(); ++group) {
    for (std::size_t i = 0; i < task.parents[group].size(); ++i)
      add_message(task.parents[group][i], task.parent_times[group][i]);
    for (std::size_t i = 0; i < task.children[group].size(); ++i)
      add_message(task.children[group][i], out_times[group][i]);
    inbox.end_row();
  }
  edge_costs = Eigen::Map<learn::Matrix<double>>(costs.data(), learn::index(costs.size()), 1);
}

}  // namespace trainyard::learned
