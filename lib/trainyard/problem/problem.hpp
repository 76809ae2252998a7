#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/checkpoint.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/costs.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/problem/groups.hpp"

namespace trainyard {

/// A graph, a cluster and costs, compiled into the dense arrays that placers and the simulator read. Immutable. A copy
/// shares the data, so it is cheap; threads may read it concurrently.
class Problem {
 public:
  /// Costs can be any type with the functions of cost/costs.hpp; the default is the standard CostModel. Throws
  /// InputError: a default-constructed Graph or Cluster ("empty-graph", "empty-cluster"), an op that no device can run
  /// ("no-device"), a colocation group without a common device ("colocation"), times whose sum over the problem could
  /// exceed kLongestTime ("too-large"), invalid costs ("costs").
  Problem(Graph graph, Cluster cluster, Costs costs = {})
      : Problem(std::move(graph), std::move(cluster), std::move(costs), {}, Checkpoint{}) {}
  /// Builds the problem of a graph whose ops are copies of those of `of`, with the same times (problem/copies.cpp).
  /// `original` maps each op to the op of `of` that it copies, which has the same outputs; none: the op takes no time
  /// and has no outputs. A tensor must not have consumers on more devices than its original. Throws InputError
  /// ("too-large") if the times could add up to too much.
  Problem(Graph graph, const Problem& of, const IdMap<OpId, OpId>& original);

  /// A problem with another graph, made by `rewrites` (rewrite/apply_rewrites.hpp), on the same cluster with the same
  /// costs. Throws like the first constructor, and OutOfTime from the checkpoint, which is called for each op and
  /// tensor.
  Problem with_graph(Graph graph, std::vector<Rewrite> rewrites = {}, Checkpoint checkpoint = Checkpoint{}) const;
  /// A problem with the same graph and rewrites on another machine. Throws like the first constructor.
  Problem with_machine(Cluster cluster, Costs costs) const;
  /// The rewrites that produced the graph, in order.
  const std::vector<Rewrite>& rewrites() const { return data_->rewrites; }

  const Graph& graph() const { return data_->graph; }
  const Cluster& cluster() const { return data_->cluster; }
  const Costs& costs() const { return data_->costs; }
  std::size_t op_count() const { return data_->graph.op_count(); }
  std::size_t device_count() const { return data_->cluster.device_count(); }
  IdRange<OpId> ops() const { return data_->graph.ops(); }
  IdRange<DeviceId> devices() const { return data_->cluster.devices(); }

  /// Whether every change of a schedule is simulated in full, because the problem has fair channels, collectives, or
  /// ops slowed by copies (simulate/delta.hpp, edited_simulation.hpp).
  bool runs_in_full() const {
    return data_->cluster.has_fair_channels() || data_->graph.has_collectives() || copies_slow_ops();
  }

  /// Whether any op takes longer while copies use its device's memory (problem/memory_load.hpp).
  bool copies_slow_ops() const { return !data_->sensitivities.empty(); }
  /// Sensitivity of the op to copies, in thousandths.
  std::uint32_t copy_sensitivity(OpId op, DeviceId device) const {
    return copies_slow_ops() ? data_->sensitivities[op.index() * data_->columns + data_->column[device]] : 0;
  }

  /// Duration of the op on the device; 0 for a collective, kNever if the device cannot run it.
  Nanoseconds duration(OpId op, DeviceId device) const {
    return data_->durations[op.index() * data_->columns + data_->column[device]];
  }
  static constexpr Nanoseconds kNever{-1};
  bool can_run(OpId op, DeviceId device) const { return duration(op, device) != kNever; }
  /// Provenance of the duration. The name is valid while the problem, or a copy of it, lives.
  CostSource cost_source(OpId op, DeviceId device) const {
    const auto& [name, evidence] = data_->sources[data_->source[op.index() * data_->columns + data_->column[device]]];
    return {name, evidence};
  }
  /// Index of the device's column. Devices in one column have the same durations for every op.
  std::size_t column(DeviceId device) const { return data_->column[device]; }
  std::size_t column_count() const { return data_->columns; }
  /// The least duration of the op over all devices that can run it.
  Nanoseconds shortest(OpId op) const {
    Nanoseconds least = kNever;
    for (const Nanoseconds time : durations().subspan(op.index() * data_->columns, data_->columns))
      if (time != kNever && (least == kNever || time < least)) least = time;
    return least;
  }

  /// Time for which the tensor's transfer occupies the route, from != to.
  Nanoseconds transfer_time(TensorId tensor, DeviceId from, DeviceId to) const {
    return transfer_time(tensor, data_->cluster.route_class(from, to));
  }
  /// Time for which it occupies any route of the class.
  Nanoseconds transfer_time(TensorId tensor, std::uint32_t route_class) const {
    const TransferClass& routes = data_->transfers[route_class];
    return routes.latency + data_->byte_times[tensor.index() * data_->rates + routes.rate];
  }

  /// All durations, ops x columns: duration(op, d) is at op.index() * column_count() + column(d).
  std::span<const Nanoseconds> durations() const { return data_->durations; }
  /// Upper bound on the end of any task in any schedule: the sum of the times of all possible tasks.
  Nanoseconds horizon() const { return data_->horizon; }

  /// Provenance of the tensor's transfer time, from != to.
  Evidence transfer_evidence(TensorId tensor, DeviceId from, DeviceId to) const {
    const RouteClass& route = data_->cluster.route_classes()[data_->cluster.route_class(from, to)];
    return data_->costs.transfer_evidence(data_->graph.bytes(tensor), route);
  }

  /// The parts of transfer_time, for loops with many lookups: the latency of the route, and the time of the tensor's
  /// bytes at each distinct rate (bandwidth or measured curve), tensors x rates.
  Nanoseconds transfer_latency(DeviceId from, DeviceId to) const {
    return data_->transfers[data_->cluster.route_class(from, to)].latency;
  }
  std::uint32_t rate(DeviceId from, DeviceId to) const {
    return data_->transfers[data_->cluster.route_class(from, to)].rate;
  }
  /// Latency and rate by route class.
  Nanoseconds transfer_latency(std::uint32_t route_class) const { return data_->transfers[route_class].latency; }
  std::uint32_t rate(std::uint32_t route_class) const { return data_->transfers[route_class].rate; }
  std::size_t rate_count() const { return data_->rates; }
  std::span<const Nanoseconds> byte_times() const { return data_->byte_times; }

  /// Parameters and optimizer state of the op: held on its device for the whole step.
  Bytes resident_bytes(OpId op) const { return data_->graph.parameter_bytes(op) + data_->graph.state_bytes(op); }

  /// Colocation groups: ops that must share a device. Every op is in one group, usually alone. Groups are numbered by
  /// their first op.
  GroupId group(OpId op) const { return data_->groups.group(op); }
  std::span<const OpId> group_ops(GroupId group) const { return data_->groups.ops(group); }
  std::size_t group_count() const { return data_->groups.count(); }
  IdRange<GroupId> groups() const { return IdRange<GroupId>{group_count()}; }
  /// Whether the device can run all ops of the group.
  bool can_run(GroupId group, DeviceId device) const {
    for (const OpId op : group_ops(group))
      if (!can_run(op, device)) return false;
    return true;
  }

 private:
  Problem(Graph graph, Cluster cluster, Costs costs, std::vector<Rewrite> rewrites, Checkpoint checkpoint);

  struct TransferClass {
    Nanoseconds latency;
    std::uint32_t rate = 0;  // column of byte_times
  };

  struct Data {
    Graph graph;
    Cluster cluster;
    Costs costs;
    std::vector<Rewrite> rewrites;
    std::size_t columns = 0;
    IdMap<DeviceId, std::uint32_t> column;
    std::vector<Nanoseconds> durations;  // op x column
    std::vector<std::pair<std::string, Evidence>> sources;
    std::vector<std::uint8_t> source;          // index into sources, op x column
    std::vector<std::uint32_t> sensitivities;  // op x column; empty: all 0
    Nanoseconds horizon;
    std::size_t rates = 0;                 // number of distinct route bandwidths and curves
    std::vector<TransferClass> transfers;  // by route class
    std::vector<Nanoseconds> byte_times;   // tensor x rate
    ColocationGroups groups;
  };
  class Compilation;
  std::shared_ptr<const Data> data_;
};

}  // namespace trainyard
