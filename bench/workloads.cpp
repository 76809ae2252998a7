#include "workloads.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::bench {
namespace {

/// Edges first: names are given when the graph is built.
struct Draft {
  struct Op {
    std::int64_t time;
    std::int64_t bytes;
    std::vector<std::uint32_t> inputs;
  };
  std::vector<Op> ops;
  Placement placement;

  std::uint32_t add(std::size_t device, std::int64_t time, std::int64_t bytes, std::vector<std::uint32_t> inputs) {
    ops.push_back({time, bytes, std::move(inputs)});
    placement.push_back(DeviceId{device});
    return static_cast<std::uint32_t>(ops.size() - 1);
  }
  PlacedGraph build(const char* name) {
    GraphBuilder builder{name};
    for (std::size_t i = 0; i < ops.size(); ++i) {
      OpSpec spec;
      spec.name = "o" + std::to_string(i);
      spec.times = {{"gpu", Nanoseconds{ops[i].time}}};
      spec.outputs = {{"t" + std::to_string(i), Bytes{ops[i].bytes}}};
      for (const std::uint32_t input : ops[i].inputs) spec.inputs.push_back("t" + std::to_string(input));
      builder.add(std::move(spec));
      ops[i].inputs = {};
    }
    return {std::move(builder).build(), std::move(placement)};
  }
};

/// Skewed like measured op times: three uniform numbers in an exponential.
double skewed(Random& random, double middle, double spread) {
  return middle * std::exp(spread * (random.uniform() + random.uniform() + random.uniform() - 1.5));
}
std::int64_t random_time(Random& random) {
  return std::max<std::int64_t>(1000, static_cast<std::int64_t>(skewed(random, 30'000, 1.6)));
}
std::int64_t random_bytes(Random& random) { return static_cast<std::int64_t>(skewed(random, 1e6, 2.2)); }

}  // namespace

PlacedGraph layered(std::size_t ops, std::size_t devices, Random& random, std::size_t width) {
  if (width == 0) width = std::max<std::size_t>(32, 2 * devices);
  width = std::max<std::size_t>(1, std::min(width, ops / 8));
  const double elsewhere = devices > 1 ? 0.35 / (1 - 1 / static_cast<double>(devices)) : 0;
  Draft draft;
  for (std::size_t i = 0; i < ops; ++i) {
    const std::size_t layer = i / width, column = i % width, device = column * devices / width;
    std::vector<std::uint32_t> inputs;
    for (std::size_t k = layer == 0 ? 0 : 1 + random.below(3); k > 0; --k) {
      const std::size_t from = layer >= 2 && random.below(10) == 0 ? layer - 2 : layer - 1;
      const std::size_t first = (device * width + devices - 1) / devices;
      const std::size_t last = std::min(width, ((device + 1) * width + devices - 1) / devices);
      const std::size_t in =
          random.uniform() < elsewhere || last <= first ? random.below(width) : first + random.below(last - first);
      inputs.push_back(static_cast<std::uint32_t>(from * width + in));
    }
    draft.add(device, random_time(random), random_bytes(random), std::move(inputs));
  }
  return draft.build("layered");
}

PlacedGraph branched(std::size_t ops, std::size_t devices, Random& random) {
  const std::size_t branches = std::max<std::size_t>(4, 2 * devices);
  Draft draft;
  const auto add = [&](std::size_t device, std::vector<std::uint32_t> inputs) {
    return draft.add(device, random_time(random), random_bytes(random), std::move(inputs));
  };
  std::uint32_t fork = add(0, {});
  while (draft.ops.size() + 1 < ops) {
    std::vector<std::uint32_t> tails;
    for (std::size_t b = 0; b < branches && draft.ops.size() + 1 < ops; ++b) {
      const std::size_t device = random.below(devices);
      std::uint32_t tail = fork;
      for (std::size_t length = 2 + random.below(5); length > 0 && draft.ops.size() + 1 < ops; --length)
        tail = add(device, {tail});
      tails.push_back(tail);
    }
    fork = add(random.below(devices), tails);
  }
  return draft.build("branched");
}

PlacedGraph transformer(std::size_t ops, std::size_t devices) {
  const std::size_t shards = std::min<std::size_t>(4, devices);
  const std::size_t stages = std::min<std::size_t>(8, std::max<std::size_t>(1, devices / shards));
  const std::size_t replicas = std::max<std::size_t>(1, devices / (shards * stages));
  const std::size_t per_layer = 14 + 15 * shards;  // ops of one layer, forward and backward
  std::size_t microbatches = std::max<std::size_t>(4, 2 * stages);
  if (replicas * microbatches * per_layer * stages > ops)
    microbatches = std::max<std::size_t>(1, ops / (replicas * per_layer * stages));
  const std::size_t layers = std::max<std::size_t>(1, ops / (replicas * microbatches * per_layer) / stages) * stages;
  constexpr std::int64_t kActivation = 4'000'000, kShard = 1'000'000, kGradient = 100;
  Draft draft;
  std::vector<std::vector<std::uint32_t>> weight_gradients(replicas * layers * shards);
  for (std::size_t replica = 0; replica < replicas; ++replica)
    for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      const auto device = [&](std::size_t layer, std::size_t shard) {
        return (replica * stages + layer * stages / layers) * shards + shard;
      };
      struct Saved {
        std::uint32_t input, norm1, middle, norm2;
        std::vector<std::uint32_t> attention, activation;
      };
      std::vector<Saved> saved;
      std::uint32_t x = draft.add(device(0, 0), 5'000, kActivation, {});
      for (std::size_t layer = 0; layer < layers; ++layer) {
        Saved s{};
        s.input = x;
        s.norm1 = draft.add(device(layer, 0), 4'000, kActivation, {x});
        std::vector<std::uint32_t> sum{x};
        for (std::size_t k = 0; k < shards; ++k) {
          const std::size_t d = device(layer, k);
          std::vector<std::uint32_t> qkv;
          for (int i = 0; i < 3; ++i) qkv.push_back(draft.add(d, 20'000, kShard, {s.norm1}));
          s.attention.push_back(draft.add(d, 45'000, kShard, qkv));
          sum.push_back(draft.add(d, 20'000, kActivation, {s.attention.back()}));
        }
        s.middle = draft.add(device(layer, 0), 6'000, kActivation, sum);
        s.norm2 = draft.add(device(layer, 0), 4'000, kActivation, {s.middle});
        sum = {s.middle};
        for (std::size_t k = 0; k < shards; ++k) {
          const std::size_t d = device(layer, k);
          const std::uint32_t up = draft.add(d, 60'000, kActivation, {s.norm2});
          s.activation.push_back(draft.add(d, 8'000, kActivation, {up}));
          sum.push_back(draft.add(d, 60'000, kActivation, {s.activation.back()}));
        }
        x = draft.add(device(layer, 0), 6'000, kActivation, sum);
        saved.push_back(std::move(s));
      }
      std::uint32_t gradient = draft.add(device(layers - 1, 0), 30'000, kActivation, {x});
      for (std::size_t layer = layers; layer-- > 0;) {
        const Saved& s = saved[layer];
        std::vector<std::uint32_t> sum{gradient, s.middle};
        for (std::size_t k = 0; k < shards; ++k) {
          const std::size_t d = device(layer, k);
          const std::uint32_t down = draft.add(d, 60'000, kActivation, {gradient, s.activation[k]});
          const std::uint32_t act = draft.add(d, 8'000, kActivation, {down});
          sum.push_back(draft.add(d, 60'000, kActivation, {act}));
          weight_gradients[(replica * layers + layer) * shards + k].push_back(
              draft.add(d, 110'000, kGradient, {act, s.norm2}));
        }
        const std::uint32_t middle = draft.add(device(layer, 0), 8'000, kActivation, sum);
        sum = {middle, s.input};
        for (std::size_t k = 0; k < shards; ++k) {
          const std::size_t d = device(layer, k);
          const std::uint32_t out = draft.add(d, 20'000, kShard, {middle});
          const std::uint32_t attention = draft.add(d, 90'000, kShard, {out, s.attention[k]});
          sum.push_back(draft.add(d, 60'000, kActivation, {attention}));
          weight_gradients[(replica * layers + layer) * shards + k].push_back(
              draft.add(d, 60'000, kGradient, {attention, s.norm1}));
        }
        gradient = draft.add(device(layer, 0), 8'000, kActivation, sum);
      }
    }
  // The update of a shard waits for its gradients of all replicas.
  for (std::size_t layer = 0; layer < layers; ++layer)
    for (std::size_t k = 0; k < shards; ++k) {
      std::vector<std::uint32_t> all;
      for (std::size_t replica = 0; replica < replicas; ++replica) {
        const auto& own = weight_gradients[(replica * layers + layer) * shards + k];
        all.insert(all.end(), own.begin(), own.end());
      }
      for (std::size_t replica = 0; replica < replicas; ++replica)
        draft.add((replica * stages + layer * stages / layers) * shards + k, 30'000, kGradient, all);
    }
  return draft.build("transformer");
}

Problem make_problem(const Graph& graph, std::size_t devices, Links links) {
  constexpr std::size_t kPerHost = 8;
  ClusterSpec spec;
  spec.name = "bench";
  for (std::size_t d = 0; d < devices; ++d) {
    Device device;
    device.name = "d" + std::to_string(d);
    device.device_class = "gpu";
    spec.devices.push_back(device);
  }
  const auto link = [&](std::string from, std::string to, double rate, std::int64_t latency) {
    Link made;
    made.name = from + "-" + to;
    made.from = std::move(from);
    made.to = std::move(to);
    made.bandwidth = BytesPerSecond{rate};
    made.latency = Nanoseconds{latency};
    spec.links.push_back(std::move(made));
  };
  if (links == Links::pairs) {
    for (std::size_t a = 0; a < devices; ++a)
      for (std::size_t b = a + 1; b < devices; ++b) {
        const bool near = a / kPerHost == b / kPerHost;
        link(spec.devices[a].name, spec.devices[b].name, near ? 200e9 : 50e9, near ? 3'000 : 8'000);
      }
  } else if (links == Links::egresses) {
    for (const Device& device : spec.devices)
      spec.egresses.push_back({device.name, BytesPerSecond{200e9}, Nanoseconds{3'000}, Nanoseconds{0}, false});
  } else {
    spec.switches = {"switch"};
    for (const Device& device : spec.devices) link(device.name, "switch", 200e9, 1'500);
  }
  return Problem{graph, make_cluster(std::move(spec))};
}

std::vector<Schedule> placements(const PlacedGraph& placed, std::size_t devices, std::size_t count, double moved,
                                 Random& random) {
  std::vector<Schedule> schedules(count);
  const std::size_t ops = placed.placement.size();
  for (Schedule& schedule : schedules) {
    schedule.placement = placed.placement;
    for (auto k = static_cast<std::size_t>(moved * static_cast<double>(ops)); k > 0; --k)
      schedule.placement[OpId{random.below(ops)}] = DeviceId{random.below(devices)};
  }
  return schedules;
}

std::vector<Schedule> with_strict_orders(const Problem& problem, std::vector<Schedule> schedules) {
  Simulation simulation{problem};
  for (Schedule& schedule : schedules) {
    const Timeline timeline = simulation.timeline(schedule);
    std::vector<OpId> order(problem.ops().begin(), problem.ops().end());
    std::ranges::stable_sort(order, {}, [&](OpId op) { return timeline.ops[op].start; });
    schedule.policy = Policy::strict;
    schedule.order.assign(problem.device_count(), {});
    for (const OpId op : order) schedule.order[schedule.placement[op]].push_back(op);
  }
  return schedules;
}

std::vector<Schedule> with_priorities(std::vector<Schedule> schedules, Random& random) {
  for (Schedule& schedule : schedules) {
    schedule.policy = Policy::priority;
    for (std::size_t i = 0; i < schedule.placement.size(); ++i)
      schedule.priority.push_back(static_cast<double>(random.below(1'000)));
  }
  return schedules;
}

}  // namespace trainyard::bench
