#include "trainyard/place/list/cluster_mapping.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "trainyard/core/sort_by.hpp"

namespace trainyard {
namespace {

class Mapper {
 public:
  Mapper(const Problem& problem, const CompressedRows<ClusterId, GroupId>& clusters, AnalyticPlan& plan)
      : problem_(problem), clusters_(clusters), plan_(plan), times_(clusters.rows() * columns_) {
    std::vector<DeviceId> of_column(columns_);
    for (const DeviceId device : problem.devices()) of_column[problem.column(device)] = device;
    for (std::size_t c = 0; c < clusters.rows(); ++c)
      for (const GroupId group : clusters[ClusterId{c}]) {
        cluster_[group] = ClusterId{c};
        for (const OpId op : problem.group_ops(group))
          for (std::size_t column = 0; column < columns_; ++column)
            // Devices that cannot run the op are skipped: the cluster never goes there.
            if (problem.can_run(op, of_column[column]))
              times_[c * columns_ + column] += problem.duration(op, of_column[column]);
      }
  }

  /// Assigns all clusters, by descending time.
  void assign_all(bool count_crossings) {
    std::vector<ClusterId> order;
    for (std::size_t c = 0; c < clusters_.rows(); ++c) order.push_back(ClusterId{c});
    sort_by_descending(order, [&](ClusterId cluster) {
      Nanoseconds longest{0};
      for (std::size_t column = 0; column < columns_; ++column)
        longest = std::max(longest, times_[cluster.index() * columns_ + column]);
      return longest;
    });
    for (const ClusterId cluster : order) {
      if (count_crossings) count(cluster);
      assign(cluster, [&](DeviceId device) { return load_[device] + crossing_[device]; });
    }
  }

  /// Assigns the cluster of the op that is about to be placed.
  void assign_for(OpId op) {
    const ClusterId cluster = cluster_[problem_.group(op)];
    if (tried_[cluster]) return;
    assign(cluster,
           [&](DeviceId device) { return std::max(plan_.ready(op, device), plan_.last_end(device) + load_[device]); });
  }

  void place(OpId op) {
    const AnalyticPlan::Slot slot = plan_.earliest_finish(op);
    if (!device_[cluster_[problem_.group(op)]].is_none()) load_[slot.device] -= problem_.duration(op, slot.device);
    plan_.place(op, slot);
  }

 private:
  Nanoseconds time(ClusterId cluster, DeviceId device) const {
    return times_[cluster.index() * columns_ + problem_.column(device)];
  }

  /// Assigns the cluster to the device with the least before(device) + time of the cluster. A cluster without a
  /// candidate device stays unassigned.
  void assign(ClusterId cluster, auto before) {
    tried_[cluster] = true;
    std::optional<Nanoseconds> least;
    DeviceId where;
    for (const DeviceId device : plan_.candidates(clusters_[cluster])) {
      const Nanoseconds end = before(device) + time(cluster, device);
      if (least && end >= *least) continue;
      least = end;
      where = device;
    }
    if (!least) return;
    device_[cluster] = where;
    load_[where] += time(cluster, where);
    for (const GroupId group : clusters_[cluster]) plan_.assign(group, where);
  }

  /// Sets crossing_: for each device, the transfer times between the cluster there and clusters assigned elsewhere. A
  /// tensor counts once for each reader.
  void count(ClusterId cluster) {
    const Graph& graph = problem_.graph();
    crossing_.assign(problem_.device_count(), Nanoseconds{0});
    const auto add = [&](TensorId tensor, OpId other, bool incoming) {
      const DeviceId there = device_[cluster_[problem_.group(other)]];
      if (there.is_none()) return;
      for (const DeviceId here : problem_.devices())
        if (here != there)
          crossing_[here] +=
              incoming ? problem_.transfer_time(tensor, there, here) : problem_.transfer_time(tensor, here, there);
    };
    for (const GroupId group : clusters_[cluster])
      for (const OpId op : problem_.group_ops(group)) {
        for (const TensorId tensor : graph.inputs(op)) add(tensor, graph.producer(tensor), true);
        for (const TensorId tensor : graph.outputs(op))
          for (const OpId reader : graph.consumers(tensor)) add(tensor, reader, false);
      }
  }

  const Problem& problem_;
  const CompressedRows<ClusterId, GroupId>& clusters_;
  AnalyticPlan& plan_;
  std::size_t columns_ = problem_.column_count();
  std::vector<Nanoseconds> times_;  // cluster x class of devices
  IdMap<GroupId, ClusterId> cluster_{problem_.group_count()};
  IdMap<ClusterId, DeviceId> device_{clusters_.rows()};  // none: not assigned
  IdMap<ClusterId, bool> tried_{clusters_.rows(), false};
  IdMap<DeviceId, Nanoseconds> load_{problem_.device_count()};  // assigned there and not yet placed
  IdMap<DeviceId, Nanoseconds> crossing_{problem_.device_count()};
};

}  // namespace

CompressedRows<ClusterId, GroupId> groups_by_cluster(const Problem& problem, std::size_t count,
                                                     const IdMap<OpId, ClusterId>& clusters) {
  std::vector<std::pair<ClusterId, GroupId>> rows;
  for (const GroupId group : problem.groups()) rows.emplace_back(clusters[problem.group_ops(group).front()], group);
  return {count, rows};
}

void map_clusters(const Problem& problem, const CompressedRows<ClusterId, GroupId>& clusters,
                  const std::vector<OpId>& taken, ClusterMapping mapping, AnalyticPlan& plan) {
  Mapper mapper{problem, clusters, plan};
  if (mapping != ClusterMapping::finish) mapper.assign_all(mapping == ClusterMapping::cut);
  for (const OpId op : taken) {
    if (mapping == ClusterMapping::finish) mapper.assign_for(op);
    mapper.place(op);
  }
}

}  // namespace trainyard
