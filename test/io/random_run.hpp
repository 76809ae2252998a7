#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {

/// A problem, a schedule of it, and the simulated timeline.
struct RandomRun {
  Problem problem;
  Schedule schedule;
  Timeline timeline;
};

/// A cluster with a link for every pair, a star around a switch, or an egress for each device.
inline ClusterSpec random_run_cluster(Random& random) {
  ClusterSpec spec{.name = "random"};
  const std::size_t devices = 1 + random.below(4);
  for (std::size_t i = 0; i < devices; ++i) {
    Device device{.name = "gpu" + std::to_string(i), .device_class = "gpu"};
    if (random.chance(0.7)) device.memory = Bytes{random.between(0, 400)};
    if (random.chance(0.3)) device.gap = Nanoseconds{random.between(1, 5)};
    spec.devices.push_back(device);
  }
  const auto link = [&](std::string from, std::string to) {
    spec.links.push_back({.name = from + "-" + to,
                          .from = from,
                          .to = to,
                          .bandwidth = BytesPerSecond{1e9},
                          .latency = Nanoseconds{random.between(0, 3)},
                          .duplex = random.chance(0.5) ? Duplex::full : Duplex::half,
                          .sharing = random.chance(0.7) ? Sharing::serial : Sharing::none,
                          .bus = random.chance(0.2) ? "bus" : ""});
  };
  const auto shape = random.below(3);
  if (shape == 0)
    for (std::size_t i = 0; i < devices; ++i)
      for (std::size_t j = i + 1; j < devices; ++j) link(spec.devices[i].name, spec.devices[j].name);
  if (shape == 1) {
    spec.switches.push_back("hub");
    for (std::size_t i = 0; i < devices; ++i) link(spec.devices[i].name, "hub");
  }
  if (shape == 2)
    for (const Device& device : spec.devices)
      spec.egresses.push_back(
          {.device = device.name, .bandwidth = BytesPerSecond{1e9}, .broadcast = random.chance(0.5)});
  return spec;
}

/// A random problem and schedule of at most `most_ops` ops, of which about a tenth take no time.
inline RandomRun random_run(std::uint64_t seed, std::size_t most_ops = 40) {
  Random random{seed};
  GraphBuilder builder{"random"};
  const std::size_t ops = 1 + random.below(most_ops);
  std::vector<std::string> tensors;
  for (std::size_t i = 0; i < ops; ++i) {
    OpSpec op{.name = "op" + std::to_string(i),
              .type = random.chance(0.5) ? "MatMul" : "Add",
              .phase = static_cast<Phase>(random.below(3)),
              .layer = "layer" + std::to_string(i / 4),
              .parameter_bytes = Bytes{random.between(0, 20)},
              .workspace_bytes = Bytes{random.between(0, 9)},
              .times = {{"gpu", Nanoseconds{random.chance(0.1) ? 0 : random.between(1, 3000)}}}};
    for (std::size_t k = random.below(3); k > 0 && !tensors.empty(); --k)
      op.inputs.push_back(tensors[random.below(tensors.size())]);
    if (i > 0 && random.chance(0.1)) op.after.push_back("op" + std::to_string(random.below(i)));
    for (std::size_t k = random.below(3); k > 0; --k) {
      const std::string name = "t" + std::to_string(i) + "." + std::to_string(k);
      op.outputs.push_back({name, Bytes{random.chance(0.1) ? 0 : random.between(1, 500)}, random.chance(0.1)});
    }
    for (const OutputSpec& output : op.outputs) tensors.push_back(output.name);
    builder.add(std::move(op));
  }
  Problem problem{std::move(builder).build(), make_cluster(random_run_cluster(random))};
  Schedule schedule{.placement = Placement(ops), .placer = "random"};
  for (const OpId op : problem.ops()) schedule.placement[op] = DeviceId{random.below(problem.device_count())};
  Timeline timeline = simulate(problem, schedule);
  return {std::move(problem), std::move(schedule), std::move(timeline)};
}

}  // namespace trainyard::test
