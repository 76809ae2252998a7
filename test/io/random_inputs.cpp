#include "io/random_inputs.hpp"

#include <string>

namespace trainyard::test {
namespace {

std::string random_name(Random& random, const char* stem, std::size_t number) {
  static const char* const kOdd[] = {"",   "",   "",     "/x",     " y", "\"q\"", "\\", "\u00e9\u4e2d",
                                     "\t", "~1", "\x7f", "comment"};
  return stem + std::to_string(number) + kOdd[random.below(std::size(kOdd))];
}

Bytes random_bytes(Random& random) {
  if (random.chance(0.3)) return Bytes{0};
  return Bytes{static_cast<std::int64_t>(random.below(std::uint64_t{1} << random.below(50)))};
}

Nanoseconds random_time(Random& random) {
  return Nanoseconds{static_cast<std::int64_t>(random.below(std::uint64_t{1} << random.below(30)))};
}

BytesPerSecond random_bandwidth(Random& random) {
  if (random.chance(0.5)) return BytesPerSecond{static_cast<double>(random.between(1, 9000)) * 1e8};
  return BytesPerSecond{1 + random.uniform() * 1e11};
}

}  // namespace

Graph random_graph(Random& random) {
  const std::size_t count = 1 + random.below(12);
  std::vector<OpSpec> specs;
  std::vector<std::string> tensors;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    OpSpec op{.name = random_name(random, "op", i)};
    if (random.chance(0.5)) op.type = random_name(random, "Type", random.below(3));
    op.phase = static_cast<Phase>(random.below(3));
    if (random.chance(0.5)) op.layer = random_name(random, "layer", random.below(3));
    if (random.chance(0.3)) op.signature = random_name(random, "signature", random.below(3));
    if (random.chance(0.5)) op.flops = Flops{random.chance(0.5) ? random.uniform() * 1e12 : 2.1e9};
    op.bytes_accessed = random_bytes(random);
    op.parameter_bytes = random_bytes(random);
    op.state_bytes = random_bytes(random);
    op.workspace_bytes = random_bytes(random);
    op.times.push_back({"gpu", random_time(random)});
    if (random.chance(0.3)) op.times.push_back({"x-kind", random_time(random)});
    if (random.chance(0.2)) op.device_kinds = {"gpu"};
    for (const std::string& tensor : tensors)
      if (random.chance(0.2)) op.inputs.push_back(tensor);
    if (!names.empty() && random.chance(0.2)) op.after.push_back(names[random.below(names.size())]);
    const std::size_t outputs = random.below(3);
    for (std::size_t k = 0; k < outputs; ++k) {
      op.outputs.push_back(
          {random_name(random, ("t" + std::to_string(i) + ".").c_str(), k), random_bytes(random), random.chance(0.2)});
      tensors.push_back(op.outputs.back().name);
    }
    names.push_back(op.name);
    specs.push_back(std::move(op));
  }
  random.shuffle(specs);  // so that some ops read tensors of later ones
  GraphBuilder builder{random_name(random, "graph", 0)};
  for (OpSpec& op : specs) builder.add(std::move(op));
  return std::move(builder).build();
}

ClusterSpec random_cluster(Random& random) {
  ClusterSpec spec;
  spec.name = random_name(random, "cluster", 0);
  const std::size_t count = 1 + random.below(4);
  spec.switches.push_back(random_name(random, "switch", 0));
  for (std::size_t i = 0; i < count; ++i) {
    Device device{.name = random_name(random, "gpu", i), .kind = "", .device_class = "gpu"};
    if (random.chance(0.3)) device.kind = "V100-SXM2-16GB";
    if (random.chance(0.2)) device.kind = "own kind";
    if (random.chance(0.7)) device.memory = random_bytes(random);
    if (random.chance(0.7)) device.peak = FlopsPerSecond{random.uniform() * 1e15};
    if (random.chance(0.7)) device.memory_bandwidth = random_bandwidth(random);
    if (random.chance(0.5)) device.launch_overhead = random_time(random);
    if (random.chance(0.3)) device.gap = random_time(random);
    Link link{.name = random_name(random, "link", i), .from = device.name, .to = spec.switches[0]};
    link.bandwidth = random_bandwidth(random);
    link.latency = random_time(random);
    if (random.chance(0.3)) link.gap = random_time(random);
    if (random.chance(0.3)) link.duplex = Duplex::half;
    if (random.chance(0.2)) link.sharing = Sharing::none;
    if (random.chance(0.3)) link.bus = "bus";
    spec.links.push_back(link);
    if (random.chance(0.3)) {
      Egress egress{.device = device.name, .bandwidth = random_bandwidth(random), .latency = random_time(random)};
      if (random.chance(0.3)) egress.gap = random_time(random);
      egress.broadcast = random.chance(0.5);
      spec.egresses.push_back(egress);
    }
    spec.devices.push_back(std::move(device));
  }
  if (count > 1 && random.chance(0.5))
    spec.routes.push_back({spec.devices[0].name, spec.devices[1].name, {spec.links[0].name, spec.links[1].name}});
  return spec;
}

Schedule random_schedule(const Problem& problem, Random& random) {
  Schedule schedule;
  schedule.placement.assign(problem.op_count(), DeviceId{0});
  for (const OpId op : problem.ops()) schedule.placement[op] = DeviceId{random.below(problem.device_count())};
  schedule.policy = static_cast<Policy>(random.below(3));
  if (schedule.policy == Policy::priority && random.chance(0.8)) {
    schedule.priority.assign(problem.op_count(), 0.0);
    for (const OpId op : problem.ops())
      if (random.chance(0.7)) schedule.priority[op] = random.normal() * 1e6;
  }
  if (schedule.policy == Policy::strict) {
    schedule.order = IdMap<DeviceId, std::vector<OpId>>(problem.device_count());
    for (const OpId op : problem.graph().topological_order()) schedule.order[schedule.placement[op]].push_back(op);
  }
  if (random.chance(0.3)) {
    Plan plan{random_time(random), IdMap<OpId, Nanoseconds>(problem.op_count())};
    for (const OpId op : problem.ops()) plan.start[op] = random_time(random);
    schedule.plan = std::move(plan);
  }
  if (random.chance(0.5)) {
    schedule.placer = "heft";
    schedule.seed = random.next();
  }
  return schedule;
}

}  // namespace trainyard::test
