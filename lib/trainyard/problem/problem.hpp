#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/problem/groups.hpp"
#include "trainyard/transform/split_op.hpp"

namespace trainyard {

/// Graph, cluster and costs compiled into dense arrays: what placers and the simulator read. Immutable; a copy shares
/// its data, so it is cheap and may be read from many threads.
class Problem {
 public:
  /// Throws InputError: an op that no device can run ("no-device"), a colocation group without a common device
  /// ("colocation"), times whose sum over the whole problem could pass kLongestTime ("too-large").
  Problem(Graph graph, Cluster cluster, const CostModel& costs = {});
  /// The same cluster and times for a graph made of copies of ops (problem/copies.cpp): `original` names the op of `of`
  /// that each op is a copy of, with the same outputs; none: it takes no time, and has no outputs. A tensor has
  /// consumers on no more devices than its original. Throws InputError where the times may add up to too much
  /// ("too-large").
  Problem(Graph graph, const Problem& of, const IdMap<OpId, OpId>& original);

  /// The same cluster and cost model for another graph. Throws as the first constructor does.
  Problem with_graph(Graph graph) const;
  /// The same graph, splits made, on another machine. Throws as the first constructor does.
  Problem with_machine(Cluster cluster, const CostModel& costs) const;
  /// The problem with these splits made (split_graph): they are remembered. Throws as that and the constructor do.
  Problem with_splits(std::vector<GraphSplit> splits) const;
  const std::vector<GraphSplit>& splits() const { return data_->splits; }

  const Graph& graph() const { return data_->graph; }
  const Cluster& cluster() const { return data_->cluster; }
  const CostModel& costs() const { return *data_->costs; }
  std::size_t op_count() const { return data_->graph.op_count(); }
  std::size_t device_count() const { return data_->cluster.device_count(); }
  IdRange<OpId> ops() const { return data_->graph.ops(); }
  IdRange<DeviceId> devices() const { return data_->cluster.devices(); }

  /// How long the op runs on the device; kNever where it cannot run there.
  Nanoseconds duration(OpId op, DeviceId device) const {
    return data_->durations[op.index() * data_->columns + data_->column[device]];
  }
  static constexpr Nanoseconds kNever{-1};
  bool can_run(OpId op, DeviceId device) const { return duration(op, device) != kNever; }
  CostSource cost_source(OpId op, DeviceId device) const {
    return data_->sources[op.index() * data_->columns + data_->column[device]];
  }
  /// Devices of one column have the same durations for every op.
  std::size_t column(DeviceId device) const { return data_->column[device]; }
  std::size_t column_count() const { return data_->columns; }
  /// The least duration of the op over all devices that can run it.
  Nanoseconds shortest(OpId op) const {
    Nanoseconds least = kNever;
    for (const Nanoseconds time : durations().subspan(op.index() * data_->columns, data_->columns))
      if (time != kNever && (least == kNever || time < least)) least = time;
    return least;
  }

  /// How long the tensor's transfer holds the route, from != to.
  Nanoseconds transfer_time(TensorId tensor, DeviceId from, DeviceId to) const {
    return transfer_time(tensor, data_->cluster.route_class(from, to));
  }
  /// The same on any route of this class of the cluster's.
  Nanoseconds transfer_time(TensorId tensor, std::uint32_t route_class) const {
    const TransferClass& routes = data_->transfers[route_class];
    return routes.latency + data_->byte_times[tensor.index() * data_->rates + routes.rate];
  }

  /// All durations, ops x columns: duration(op, d) is at op.index() * column_count() + column(d).
  std::span<const Nanoseconds> durations() const { return data_->durations; }
  /// No task ends later than this, whatever the schedule: the sum of everything that could ever run, one after the
  /// other.
  Nanoseconds horizon() const { return data_->horizon; }

  /// How well the time of the tensor's transfer is known, from != to.
  Evidence transfer_evidence(TensorId tensor, DeviceId from, DeviceId to) const {
    const TransferClass& routes = data_->transfers[data_->cluster.route_class(from, to)];
    const Bytes bytes = data_->graph.bytes(tensor);
    return bytes >= routes.least && bytes <= routes.most ? routes.inside : routes.outside;
  }

  /// The parts of transfer_time, for loops that look up many: what the route adds, and the time of the tensor's bytes
  /// at each of the distinct rates (bandwidths, and measured curves), tensors x rates.
  Nanoseconds transfer_latency(DeviceId from, DeviceId to) const {
    return data_->transfers[data_->cluster.route_class(from, to)].latency;
  }
  std::uint32_t rate(DeviceId from, DeviceId to) const {
    return data_->transfers[data_->cluster.route_class(from, to)].rate;
  }
  /// The same of any route of this class of the cluster's.
  Nanoseconds transfer_latency(std::uint32_t route_class) const { return data_->transfers[route_class].latency; }
  std::uint32_t rate(std::uint32_t route_class) const { return data_->transfers[route_class].rate; }
  std::size_t rate_count() const { return data_->rates; }
  std::span<const Nanoseconds> byte_times() const { return data_->byte_times; }

  /// Parameters and optimizer state of the op: held on its device for the whole step.
  Bytes resident_bytes(OpId op) const { return data_->graph.parameter_bytes(op) + data_->graph.state_bytes(op); }

  /// Ops that must share a device; every op is in one group, most are alone in theirs. Groups are numbered by their
  /// first op.
  GroupId group(OpId op) const { return data_->groups.group(op); }
  std::span<const OpId> group_ops(GroupId group) const { return data_->groups.ops(group); }
  std::size_t group_count() const { return data_->groups.count(); }

 private:
  Problem(Graph graph, Cluster cluster, std::shared_ptr<const CostModel> shared_costs,
          std::vector<GraphSplit> splits = {});

  struct TransferClass {
    Nanoseconds latency;
    std::uint32_t rate = 0;  // column of byte_times
    // What is known of transfers of `least` to `most` bytes, and of others.
    Evidence inside = Evidence::estimated, outside = Evidence::estimated;
    Bytes least, most;
  };
  static TransferClass transfer_class(Nanoseconds latency, std::uint32_t rate, const RouteClass& route,
                                      const CostModel& costs);

  struct Data {
    Graph graph;
    Cluster cluster;
    std::shared_ptr<const CostModel> costs;
    std::vector<GraphSplit> splits;
    std::size_t columns = 0;
    IdMap<DeviceId, std::uint32_t> column;
    std::vector<Nanoseconds> durations;  // op x column
    std::vector<CostSource> sources;     // op x column
    Nanoseconds horizon;
    std::size_t rates = 0;                 // distinct route bandwidths and curves
    std::vector<TransferClass> transfers;  // by route class
    std::vector<Nanoseconds> byte_times;   // tensor x rate
    ColocationGroups groups;
  };
  std::shared_ptr<const Data> data_;
};

}  // namespace trainyard
