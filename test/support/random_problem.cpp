#include "support/random_problem.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard::test {
namespace {

// A byte takes one unit of time on a link of speed 1: 1e9 bytes per second if the unit is 1 ns.
BytesPerSecond random_bandwidth(Random& random, const RandomProblemOptions& options) {
  return BytesPerSecond{1e9 / static_cast<double>(options.unit_ns) * (random.chance(0.8) ? 1 : 0.5)};
}
Nanoseconds few(Random& random, double zero, std::int64_t most, const RandomProblemOptions& options) {
  return Nanoseconds{random.chance(zero) ? 0 : random.between(1, most) * options.unit_ns};
}

std::string numbered(const char* word, std::size_t number) { return word + std::to_string(number); }

Link random_link(Random& random, std::string name, std::string from, std::string to,
                 const RandomProblemOptions& options) {
  Link link;
  link.name = std::move(name);
  link.from = std::move(from);
  link.to = std::move(to);
  link.bandwidth = random_bandwidth(random, options);
  link.latency = few(random, 0.6, 2, options);
  link.gap = few(random, 0.8, 2, options);
  if (options.closed_links) return link;
  link.duplex = random.chance(0.3) ? Duplex::half : Duplex::full;
  link.sharing = random.chance(0.1) ? Sharing::none : Sharing::serial;
  if (random.chance(0.25)) link.bus = numbered("bus", random.below(2));
  return link;
}

void make_fair(Random& random, Link& link, const RandomProblemOptions& options) {
  link.sharing = Sharing::fair;
  link.gap = Nanoseconds{0};
  if (link.bus.empty() && random.chance(0.4)) link.bandwidth.value *= static_cast<double>(random.between(2, 9)) / 7;
  if (link.bus.empty()) return;
  link.bus = "fair-" + link.bus;
  link.bandwidth = BytesPerSecond{1e9 / static_cast<double>(options.unit_ns)};
}

ClusterSpec random_cluster(Random& random, const RandomProblemOptions& options) {
  ClusterSpec spec;
  spec.name = "random";
  const std::size_t count = 1 + random.below(options.most_devices);
  for (std::size_t i = 0; i < count; ++i) {
    Device device;
    device.name = numbered("d", i);
    device.device_class = options.plain_cluster || random.chance(0.8) ? "gpu" : "cpu";
    if (!options.plain_cluster && random.chance(0.2)) device.gap = few(random, 0, 2, options);
    if (options.memory && random.chance(0.5)) device.memory = Bytes{random.between(0, 30)};
    spec.devices.push_back(device);
  }
  const std::uint64_t shape = options.closed_links ? 3 * random.below(2) : random.below(4);
  if (shape == 0) {  // a link for each pair
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = i + 1; k < count; ++k)
        spec.links.push_back(
            random_link(random, numbered("l", spec.links.size()), numbered("d", i), numbered("d", k), options));
  } else if (shape == 1) {  // two switches
    spec.switches = {"s0", "s1"};
    spec.links.push_back(random_link(random, "trunk", "s0", "s1", options));
    for (std::size_t i = 0; i < count; ++i)
      spec.links.push_back(
          random_link(random, numbered("l", i), numbered("d", i), numbered("s", random.below(2)), options));
  } else if (shape == 2) {  // a chain
    for (std::size_t i = 0; i + 1 < count; ++i)
      spec.links.push_back(random_link(random, numbered("l", i), numbered("d", i), numbered("d", i + 1), options));
  } else {  // an egress for each device, and a few links
    for (std::size_t i = 0; i < count; ++i)
      spec.egresses.push_back({numbered("d", i), random_bandwidth(random, options), few(random, 0.6, 2, options),
                               few(random, 0.7, 2, options), !options.closed_links && random.chance(0.6)});
    for (std::size_t i = 0; i + 1 < count; ++i)
      if (!options.closed_links && random.chance(0.3)) {
        spec.links.push_back(random_link(random, numbered("l", i), numbered("d", i), numbered("d", i + 1), options));
        spec.links.back().latency = Nanoseconds{0};
      }
  }
  if (options.fair_links > 0)
    for (Link& link : spec.links)
      if (random.chance(options.fair_links)) make_fair(random, link, options);
  return spec;
}

std::vector<GivenTime> random_times(Random& random, bool one_class, const RandomProblemOptions& options) {
  std::vector<GivenTime> times{{"gpu", few(random, options.zero_times, 4, options)}};
  if (!one_class || random.chance(0.3)) times.push_back({"cpu", few(random, options.zero_times, 8, options)});
  return times;
}

/// Adds a collective between random ops up to a position and random ops after it, if there are any before it.
void add_collective(Random& random, std::vector<OpSpec>& ops, const std::vector<std::size_t>& position,
                    const std::string& name) {
  OpSpec collective{.name = name, .type = "Collective"};
  collective.collective = {static_cast<CollectiveKind>(random.below(kCollectiveKinds)), Bytes{random.between(0, 12)}};
  const std::size_t at = random.below(position.size());
  const double share = random.uniform();
  for (std::size_t i = 0; i < position.size(); ++i)
    if (position[i] <= at && random.chance(share)) collective.after.push_back(ops[i].name);
  if (collective.after.empty()) return;
  const auto is_member = [](const OpSpec& op) {
    return std::ranges::any_of(op.after, [](const std::string& earlier) { return earlier.starts_with("collective"); });
  };
  for (std::size_t i = 0; i < position.size(); ++i)
    if (position[i] > at && ops[i].outputs.size() <= 1 && !is_member(ops[i]) && random.chance(share))
      ops[i].after.push_back(name);
  ops.push_back(std::move(collective));
}

}  // namespace

Problem random_problem(Random& random, const RandomProblemOptions& options) {
  ClusterSpec spec = random_cluster(random, options);
  const bool has_gpu = std::ranges::any_of(spec.devices, [](const Device& d) { return d.device_class == "gpu"; });
  const auto bytes = [&](double zero, std::int64_t most) {
    return Bytes{!options.memory || random.chance(zero) ? 0 : random.between(1, most)};
  };
  const std::size_t count = 1 + random.below(options.most_ops);
  const double density = random.uniform() * 5 / static_cast<double>(count);
  std::vector<OpSpec> ops(count);
  std::vector<std::size_t> position(count);  // position of each op in an order that respects all edges
  for (std::size_t i = 0; i < count; ++i) position[i] = i;
  if (random.chance(0.5)) random.shuffle(position);
  for (std::size_t i = 0; i < count; ++i) {
    OpSpec& op = ops[i];
    op.name = numbered("op", i);
    const bool grouped = random.chance(0.2);
    if (grouped) op.colocate = numbered("group", random.below(2));
    if (options.updates > 0 && random.chance(options.updates)) op.phase = Phase::update;
    op.times = random_times(random, has_gpu && !grouped, options);
    op.parameter_bytes = bytes(0.7, 4);
    op.state_bytes = bytes(0.7, 4);
    op.workspace_bytes = bytes(0.6, 4);
    if (options.accesses) op.bytes_accessed = Bytes{random.between(0, 8)};
    const std::size_t tensors = random.below(3);
    for (std::size_t k = 0; k < tensors; ++k)
      op.outputs.push_back({numbered("t", i) + "." + std::to_string(k),
                            Bytes{random.chance(0.2) ? 0 : random.between(1, 6)}, random.chance(0.15)});
  }
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < count; ++k) {
      if (position[i] >= position[k]) continue;
      for (const OutputSpec& tensor : ops[i].outputs)
        if (random.chance(density)) ops[k].inputs.push_back(tensor.name);
      if (random.chance(density / 4)) ops[k].after.push_back(ops[i].name);
    }
  for (std::size_t c = options.collectives > 0 ? random.below(options.collectives + 1) : 0; c > 0; --c)
    add_collective(random, ops, position, numbered("collective", c));
  GraphBuilder builder{"random"};
  for (OpSpec& op : ops) builder.add(std::move(op));
  return Problem{std::move(builder).build(), make_cluster(std::move(spec))};
}

Schedule random_schedule(Random& random, const Problem& problem) {
  Schedule schedule;
  schedule.placement = Placement(problem.op_count(), DeviceId{0});
  for (const GroupId group : problem.groups()) {
    std::vector<DeviceId> able;
    for (const DeviceId device : problem.devices())
      if (problem.can_run(group, device)) able.push_back(device);
    const DeviceId chosen = able[random.below(able.size())];
    for (const OpId op : problem.group_ops(group)) schedule.placement[op] = chosen;
  }
  const auto most = static_cast<std::int64_t>(random.below(4));
  if (random.chance(0.8))
    for (std::size_t i = 0; i < problem.op_count(); ++i)
      schedule.priority.push_back(static_cast<double>(random.between(-most, most)) / 2);
  schedule.order.assign(problem.device_count(), {});
  // A random order that respects all edges: no deadlock.
  std::vector<OpId> waiting(problem.ops().begin(), problem.ops().end());
  IdMap<OpId, bool> done(problem.op_count(), false);
  while (!waiting.empty()) {
    random.shuffle(waiting);
    const auto next = std::ranges::find_if(waiting, [&](OpId op) {
      const Graph& graph = problem.graph();
      return std::ranges::all_of(graph.inputs(op), [&](TensorId t) { return bool{done[graph.producer(t)]}; }) &&
             std::ranges::all_of(graph.after(op), [&](OpId earlier) { return bool{done[earlier]}; });
    });
    done[*next] = true;
    schedule.order[schedule.placement[*next]].push_back(*next);
    waiting.erase(next);
  }
  constexpr Policy kPolicies[] = {Policy::fifo, Policy::priority, Policy::strict};
  schedule.policy = kPolicies[random.below(3)];
  return schedule;
}

}  // namespace trainyard::test
