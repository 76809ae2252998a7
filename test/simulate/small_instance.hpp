#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::test {

/// Small graphs and clusters for examples that can be checked by hand. Ops are called "0", "1", ... and devices "d0",
/// "d1", .... A link carries 1 byte per ns, so that bytes are times.
struct SmallOp {
  std::size_t device;
  std::int64_t duration_ns;
};
struct SmallTensor {
  std::size_t from;
  std::vector<std::size_t> to;
  std::int64_t bytes;
};
struct SmallInstance {
  std::vector<SmallOp> ops;
  std::vector<SmallTensor> tensors;
};

inline constexpr BytesPerSecond kBytePerNanosecond{1e9};

/// A cluster with a link for each pair of devices.
inline ClusterSpec linked(std::size_t devices, Duplex duplex = Duplex::full, Sharing sharing = Sharing::serial) {
  ClusterSpec spec;
  spec.name = "linked";
  for (std::size_t i = 0; i < devices; ++i) {
    Device device;
    device.name = "d" + std::to_string(i);
    device.device_class = "gpu";
    spec.devices.push_back(device);
  }
  for (std::size_t i = 0; i < devices; ++i)
    for (std::size_t k = i + 1; k < devices; ++k) {
      Link link;
      link.name = "l" + std::to_string(i) + std::to_string(k);
      link.from = spec.devices[i].name;
      link.to = spec.devices[k].name;
      link.bandwidth = kBytePerNanosecond;
      link.duplex = duplex;
      link.sharing = sharing;
      spec.links.push_back(link);
    }
  return spec;
}

/// A cluster with one bus per source device.
inline ClusterSpec egresses(std::size_t devices, bool broadcast = false) {
  ClusterSpec spec = linked(devices);
  spec.name = "egresses";
  spec.links.clear();
  for (const Device& device : spec.devices) {
    Egress egress;
    egress.device = device.name;
    egress.bandwidth = kBytePerNanosecond;
    egress.broadcast = broadcast;
    spec.egresses.push_back(egress);
  }
  return spec;
}

inline Graph graph_of(const SmallInstance& instance) {
  std::vector<OpSpec> ops(instance.ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ops[i].name = std::to_string(i);
    ops[i].times = {{"gpu", Nanoseconds{instance.ops[i].duration_ns}}};
  }
  for (const SmallTensor& tensor : instance.tensors) {
    OpSpec& producer = ops[tensor.from];
    const std::string name = producer.name + ":" + std::to_string(producer.outputs.size());
    producer.outputs.push_back({name, Bytes{tensor.bytes}});
    for (const std::size_t consumer : tensor.to) ops[consumer].inputs.push_back(name);
  }
  GraphBuilder builder{"small"};
  for (OpSpec& op : ops) builder.add(std::move(op));
  return std::move(builder).build();
}

inline Problem problem_of(const SmallInstance& instance, ClusterSpec cluster) {
  return Problem{graph_of(instance), make_cluster(std::move(cluster))};
}

/// Schedule with each op on the instance's device.
inline Schedule schedule_of(const SmallInstance& instance) {
  Schedule schedule;
  for (const SmallOp& op : instance.ops) schedule.placement.push_back(DeviceId{op.device});
  return schedule;
}

/// Schedule with op i on device devices[i].
inline Schedule placed(const std::vector<std::size_t>& devices) {
  Schedule schedule;
  for (const std::size_t device : devices) schedule.placement.push_back(DeviceId{device});
  return schedule;
}

inline Span span_of(std::int64_t start, std::int64_t end) { return {Nanoseconds{start}, Nanoseconds{end}}; }

}  // namespace trainyard::test
