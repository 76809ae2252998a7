#include "trainyard/place/learned/giph_net.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "trainyard/simulate/simulate.hpp"

namespace trainyard::learned {
namespace {

void scale_columns(learn::Matrix<double>& x) {
  for (learn::Index column = 0; column < x.cols() && x.rows() > 0; ++column) {
    const double most = x.col(column).cwiseAbs().maxCoeff();
    if (most > 0) x.col(column) /= most;
  }
}

using Edges = std::vector<std::pair<std::uint32_t, double>>;  // other group, transfer time

/// Messages to each node, from the groups in `from`.
GpNet::Messages messages_of(const PlacementTask& task, const std::vector<Edges>& from, const Devices& placement,
                            bool down) {
  GpNet::Messages messages;
  std::vector<std::array<double, GpNet::kEdgeFeatures>> rows;
  const auto count = static_cast<std::uint32_t>(task.devices());
  const auto add = [&](std::uint32_t group, std::uint32_t on, std::uint32_t to, double time) {
    messages.inbox.add_item(static_cast<std::uint32_t>(messages.senders.size()));
    messages.senders.push_back(group * count + on);
    const DeviceId here{on}, there{to};
    double latency = 0;
    if (on != to)
      latency = static_cast<double>(
          (down ? task.problem.transfer_latency(here, there) : task.problem.transfer_latency(there, here)).count);
    rows.push_back({time, latency, on == to ? 0 : time});
  };
  for (std::uint32_t group = 0; group < task.size(); ++group)
    for (std::uint32_t device = 0; device < count; ++device) {
      for (const auto& [other, time] : from[group]) {
        const std::uint32_t pivot = placement[other];
        if (device != placement[group]) {
          add(other, pivot, device, time);
          continue;
        }
        for (std::uint32_t on = 0; on < count; ++on) add(other, on, device, time);
      }
      messages.inbox.end_row();
    }
  messages.edges.resize(learn::index(rows.size()), learn::index(GpNet::kEdgeFeatures));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = 0; k < rows[i].size(); ++k) messages.edges(learn::index(i), learn::index(k)) = rows[i][k];
  scale_columns(messages.edges);
  return messages;
}

}  // namespace

GpNet::GpNet(const PlacementTask& task, const DopplerGraph& graph, const Devices& placement) {
  const std::size_t count = task.devices();
  const Timeline now = simulate(task.problem, {.placement = task.placement(placement)});
  nodes = learn::Matrix<double>::Zero(learn::index(task.size() * count), learn::index(kNodeFeatures));
  std::vector<double> all(count);
  for (std::size_t group = 0; group < task.size(); ++group)
    for (std::size_t device = 0; device < count; ++device) {
      auto row = nodes.row(learn::index(group * count + device));
      row(0) = graph.features(learn::index(group), 0);
      for (const OpId op : task.groups.ops[group]) row(2) += graph.times[op.index() * count + device];
      all[device] += row(2);
      const OpId first = task.groups.ops[group].front();
      for (const auto& input : graph.inputs[first]) {
        const bool here = placement[task.groups.of[input.op]] == device;
        row(3) = std::max(row(3), static_cast<double>(now.ops[input.op].end.count) + (here ? 0 : input.cost));
      }
      row(3) -= static_cast<double>(now.ops[first].start.count);
    }
  for (std::size_t node = 0; node < task.size() * count; ++node) nodes(learn::index(node), 1) = all[node % count];
  scale_columns(nodes);
  std::vector<Edges> in(task.size()), out(task.size());
  for (std::uint32_t group = 0; group < task.size(); ++group)
    for (std::size_t i = 0; i < task.parents[group].size(); ++i) {
      in[group].emplace_back(task.parents[group][i], task.parent_times[group][i]);
      out[task.parents[group][i]].emplace_back(group, task.parent_times[group][i]);
    }
  down = messages_of(task, in, placement, true);
  up = messages_of(task, out, placement, false);
}

}  // namespace trainyard::learned
