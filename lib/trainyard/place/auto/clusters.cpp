#include "trainyard/place/auto/clusters.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "trainyard/core/disjoint_sets.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/layers.hpp"

namespace trainyard {
namespace {

/// Clusters of the groups with equal `label`, numbered by first appearance.
Clusters clusters_by(const Problem& problem, const AbleDevices& able, const std::vector<std::uint32_t>& label) {
  constexpr auto kNone = static_cast<std::uint32_t>(-1);
  std::vector<std::uint32_t> number(*std::ranges::max_element(label) + std::size_t{1}, kNone);
  std::vector<std::vector<GroupId>> groups;
  for (std::size_t g = 0; g < label.size(); ++g) {
    std::uint32_t& at = number[label[g]];
    if (at == kNone) {
      at = static_cast<std::uint32_t>(groups.size());
      groups.emplace_back();
    }
    groups[at].push_back(GroupId{g});
  }
  Clusters clusters;
  clusters.of.assign(problem.op_count(), ClusterId{0});
  std::vector<OpId> ops;
  std::vector<DeviceId> devices, both;
  for (std::size_t c = 0; c < groups.size(); ++c) {
    ops.clear();
    devices.assign(able[groups[c].front()].begin(), able[groups[c].front()].end());
    for (const GroupId group : groups[c]) {
      for (const OpId op : problem.group_ops(group)) {
        ops.push_back(op);
        clusters.of[op] = ClusterId{c};
      }
      both.clear();
      std::ranges::set_intersection(devices, able[group], std::back_inserter(both));
      devices.swap(both);
    }
    std::ranges::sort(ops);
    clusters.ops.append_row(ops);
    clusters.devices.append_row(devices);
  }
  return clusters;
}

/// The layer (or block) of each group's first op.
std::vector<std::uint32_t> layer_labels(const Problem& problem, bool blocks) {
  const Layers layers = find_layers(problem.graph());
  std::map<std::string, std::uint32_t, std::less<>> block_number;
  std::vector<std::uint32_t> labels;
  for (const GroupId group : problem.groups()) {
    const LayerId layer = layers.of[problem.group_ops(group).front()];
    if (!blocks) {
      labels.push_back(static_cast<std::uint32_t>(layer.index()));
      continue;
    }
    const auto next = static_cast<std::uint32_t>(block_number.size());
    labels.push_back(block_number.emplace(std::string{block_of(layers.names[layer.index()])}, next).first->second);
  }
  return labels;
}

}  // namespace

std::vector<Clusters> cluster_levels(const Problem& problem) {
  const Graph& graph = problem.graph();
  const auto able = group_devices(problem);
  std::vector<Clusters> levels;
  const auto add = [&](const std::vector<std::uint32_t>& label) {
    Clusters next = clusters_by(problem, able, label);
    // A partition into one cluster is left out: it could only move everything at once.
    if (levels.empty() || (next.size() > 1 && std::ranges::none_of(levels, [&](const Clusters& known) {
                             return known.size() == next.size() && known.of == next.of;
                           })))
      levels.push_back(std::move(next));
  };
  DisjointSets joined{problem.group_count()};
  std::vector<Nanoseconds> time(problem.group_count(), Nanoseconds{0});  // by the sets' leaders
  std::vector<std::uint32_t> label(problem.group_count());
  std::iota(label.begin(), label.end(), std::uint32_t{0});
  add(label);

  Nanoseconds all{0};
  for (const OpId op : problem.ops()) {
    all += problem.shortest(op);
    time[problem.group(op).index()] += problem.shortest(op);
  }
  std::vector<TensorId> tensors;
  for (const TensorId tensor : graph.tensors())
    if (!graph.consumers(tensor).empty()) tensors.push_back(tensor);
  sort_by_descending(tensors, [&](TensorId tensor) { return graph.bytes(tensor); });
  const auto devices = static_cast<std::int64_t>(problem.device_count());
  for (const std::int64_t share : {64, 16, 4}) {
    const Nanoseconds most{all.count / (share * devices)};
    for (const TensorId tensor : tensors)
      for (const OpId consumer : graph.consumers(tensor)) {
        const std::size_t a = joined.find(problem.group(graph.producer(tensor)).index());
        const std::size_t b = joined.find(problem.group(consumer).index());
        const Nanoseconds both = time[a] + time[b];
        if (a == b || both > most) continue;
        joined.join(a, b);
        time[joined.find(a)] = both;
      }
    for (std::size_t g = 0; g < label.size(); ++g) label[g] = static_cast<std::uint32_t>(joined.find(g));
    add(label);
  }
  add(layer_labels(problem, false));
  add(layer_labels(problem, true));
  return levels;
}

}  // namespace trainyard
