#include "trainyard/place/exact/model.hpp"

#include <utility>

#include "trainyard/bound/chains.hpp"
#include "trainyard/place/kit/groups.hpp"

namespace trainyard::detail {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

std::uint32_t number(auto id) { return static_cast<std::uint32_t>(id.index()); }

/// Whether transfers on the channel take turns.
bool is_serial(const auto& channel) {
  if constexpr (requires { channel.fair; })
    return !channel.fair;
  else
    return true;
}

}  // namespace

ExactModel::ExactModel(const Problem& of, const Placement& fixed)
    : problem(of), ops(of.op_count()), devices(of.device_count()), resources(devices) {
  const Graph& graph = problem.graph();
  inputs.resize(ops);
  outputs.resize(ops);
  for (const OpId op : problem.ops()) {
    shortest.push_back(problem.shortest(op).count);
    for (const DeviceId device : problem.devices())
      duration.push_back(problem.can_run(op, device) ? problem.duration(op, device).count : -1);
    const auto add = [&](std::uint32_t tensor, OpId from) {
      inputs[op.index()].push_back({tensor, number(from)});
      outputs[from.index()].push_back({tensor, number(op)});
    };
    for (const TensorId tensor : graph.inputs(op)) add(number(tensor), graph.producer(tensor));
    for (const OpId earlier : graph.after(op)) add(kNoTensor, earlier);
  }
  for (auto& readers : outputs) std::ranges::sort(readers);  // grouped by tensor
  for (const OpId op : graph.topological_order()) order.push_back(number(op));
  const Chains chains = chains_with_transfers(problem);
  for (const OpId op : problem.ops()) {
    head.push_back(chains.head[op].count);
    tail.push_back(chains.tail[op].count);
  }

  add_resources();

  const auto able_devices = group_devices(problem);
  std::vector<char> is_fixed(problem.group_count(), 0);
  for (const GroupId group : problem.groups()) {
    std::vector<std::uint32_t> members, can;
    for (const OpId op : problem.group_ops(group)) members.push_back(number(op));
    for (const DeviceId device : able_devices[group]) can.push_back(number(device));
    std::int64_t bytes = 0;
    for (const OpId op : problem.group_ops(group)) {
      bytes += problem.resident_bytes(op).count;
      if (fixed.empty() || fixed[op].is_none()) continue;
      can = {number(fixed[op])};
      is_fixed[group.index()] = 1;
    }
    group_ops.push_back(std::move(members));
    able.push_back(std::move(can));
    group_bytes.push_back(bytes);
  }
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<char> taken(problem.group_count(), 0);
    for (const std::uint32_t op : order) {
      const std::size_t g = problem.group(OpId{op}).index();
      if (taken[g] || is_fixed[g] != (pass == 0)) continue;
      taken[g] = 1;
      group_order.push_back(static_cast<std::uint32_t>(g));
    }
    if (pass == 0) fixed_groups = group_order.size();
  }

  for (std::size_t d = 0; d < devices; ++d) {
    std::size_t same = 0;
    while (same < d && !(twin[same] == same && interchangeable(*this, same, d))) ++same;
    twin.push_back(static_cast<std::uint32_t>(same));
  }
}

std::vector<std::uint32_t> ExactModel::add_resources() {
  const Cluster& cluster = problem.cluster();
  for (const DeviceId device : problem.devices()) {
    gap.push_back(cluster.device(device).gap.count);
    const auto memory = cluster.device(device).memory;
    capacity.push_back(memory ? memory->count : std::numeric_limits<std::int64_t>::max());
    limited = limited || memory.has_value();
  }
  std::vector<std::uint32_t> resource_of(cluster.channel_count(), kNone);
  for (const ChannelId channel : cluster.channels()) {
    if (!is_serial(cluster.channel(channel))) continue;
    resource_of[channel.index()] = static_cast<std::uint32_t>(resources++);
    gap.push_back(cluster.channel(channel).gap.count);
  }
  gaps = std::ranges::any_of(gap, [](std::int64_t g) { return g > 0; });
  routes.resize(devices * devices);
  for (const DeviceId from : problem.devices())
    for (const DeviceId to : problem.devices()) {
      if (from == to) continue;
      const Route route = cluster.route(from, to);
      PairRoute& pair = routes[from.index() * devices + to.index()];
      for (const ChannelId channel : route.channels)
        if (resource_of[channel.index()] != kNone) pair.resources.push_back(resource_of[channel.index()]);
      pair.broadcast =
          route.links.size() == 1 && route.channels.size() == 1 && cluster.channel(route.channels.front()).broadcast;
    }
  return resource_of;
}

ExactModel::ExactModel(const Problem& of, const ExactWindow& window)
    : problem(of), ops(window.ops.size()), devices(of.device_count()), resources(devices) {
  const Graph& graph = problem.graph();
  std::vector<std::uint32_t> position(problem.op_count(), kNone);
  for (std::uint32_t i = 0; i < ops; ++i) position[window.ops[i].index()] = i;
  inputs.resize(ops);
  outputs.resize(ops);
  for (std::uint32_t i = 0; i < ops; ++i) {
    const OpId op = window.ops[i];
    order.push_back(i);
    shortest.push_back(problem.shortest(op).count);
    for (const DeviceId device : problem.devices())
      duration.push_back(problem.can_run(op, device) ? problem.duration(op, device).count : -1);
    const auto add = [&](std::uint32_t tensor, OpId earlier) {
      const std::uint32_t from = position[earlier.index()];
      if (from == kNone) return;
      inputs[i].push_back({tensor, from});
      outputs[from].push_back({tensor, i});
    };
    for (const TensorId tensor : graph.inputs(op)) add(number(tensor), graph.producer(tensor));
    for (const OpId earlier : graph.after(op)) add(kNoTensor, earlier);
  }
  for (auto& readers : outputs) std::ranges::sort(readers);  // grouped by tensor
  arrival = window.arrival;
  beyond = window.beyond;
  held = window.held;
  const std::vector<std::uint32_t> resource_of = add_resources();
  available.assign(resources, 0);
  std::copy_n(window.available.begin(), devices, available.begin());
  for (std::size_t c = 0; c < resource_of.size(); ++c)
    if (resource_of[c] != kNone) available[resource_of[c]] = window.available[devices + c];

  // Colocation groups. A group with a fixed op is fixed.
  std::vector<std::uint32_t> group_of(problem.group_count(), kNone);
  for (std::uint32_t i = 0; i < ops; ++i) {
    std::uint32_t& group = group_of[problem.group(window.ops[i]).index()];
    if (group == kNone) {
      group = static_cast<std::uint32_t>(group_ops.size());
      group_ops.emplace_back();
      group_bytes.push_back(0);
    }
    group_ops[group].push_back(i);
    group_bytes[group] += problem.resident_bytes(window.ops[i]).count;
  }
  std::vector<char> is_fixed(group_ops.size(), 0);
  for (std::size_t g = 0; g < group_ops.size(); ++g) {
    std::vector<std::uint32_t> can;
    for (std::uint32_t d = 0; d < devices; ++d)
      if (std::ranges::all_of(group_ops[g], [&](std::uint32_t op) { return time(op, d) >= 0; })) can.push_back(d);
    for (const std::uint32_t op : group_ops[g])
      if (window.fixed[op] != kUnplaced) {
        can = {window.fixed[op]};
        is_fixed[g] = 1;
      }
    able.push_back(std::move(can));
  }
  for (const char pass : {char{1}, char{0}}) {
    for (std::uint32_t g = 0; g < group_ops.size(); ++g)
      if (is_fixed[g] == pass) group_order.push_back(g);
    if (pass == 1) fixed_groups = group_order.size();
  }
  for (std::uint32_t op = 0; op < ops; ++op) {
    std::int64_t earliest = std::numeric_limits<std::int64_t>::max(), least = earliest;
    for (std::uint32_t d = 0; d < devices; ++d) {
      if (time(op, d) < 0 || (window.fixed[op] != kUnplaced && window.fixed[op] != d)) continue;
      earliest = std::min(earliest, arrives(op, d));
      least = std::min(least, follows(op, d));
    }
    head.push_back(earliest);
    tail.push_back(least);
  }
  for (std::uint32_t d = 0; d < devices; ++d) twin.push_back(d);  // the ops outside make the devices distinct
}

bool interchangeable(const ExactModel& model, std::size_t a, std::size_t b) {
  const Problem& problem = model.problem;
  if (problem.column(DeviceId{a}) != problem.column(DeviceId{b})) return false;
  if (model.gap[a] != model.gap[b] || model.capacity[a] != model.capacity[b]) return false;
  const auto swapped = [&](std::size_t d) { return d == a ? b : d == b ? a : d; };
  std::vector<std::uint32_t> image(model.resources, kNone), source(model.resources, kNone);
  for (std::size_t from = 0; from < model.devices; ++from)
    for (std::size_t to = 0; to < model.devices; ++to) {
      if (from == to) continue;
      const DeviceId f{from}, t{to}, sf{swapped(from)}, st{swapped(to)};
      const Cluster& cluster = problem.cluster();
      const RouteClass &here = cluster.route_classes()[cluster.route_class(f, t)],
                       &there = cluster.route_classes()[cluster.route_class(sf, st)];
      if (here != there) return false;
      const auto &one = model.route(from, to), &two = model.route(swapped(from), swapped(to));
      if (one.broadcast != two.broadcast || one.resources.size() != two.resources.size()) return false;
      for (std::size_t i = 0; i < one.resources.size(); ++i) {
        const std::uint32_t x = one.resources[i], y = two.resources[i];
        if (model.gap[x] != model.gap[y]) return false;
        if (image[x] == kNone && source[y] == kNone) {
          image[x] = y;
          source[y] = x;
        }
        if (image[x] != y) return false;
      }
    }
  return true;
}

}  // namespace trainyard::detail
