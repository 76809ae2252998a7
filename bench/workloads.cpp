#include "workloads.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "shapes.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {
namespace {

constexpr Nanoseconds kNear{3'000}, kFar{8'000};
constexpr BytesPerSecond kNearRate{200e9}, kFarRate{50e9};

Link link(std::string name, std::string from, std::string to, BytesPerSecond bandwidth, Nanoseconds latency) {
  Link result;
  result.name = std::move(name);
  result.from = std::move(from);
  result.to = std::move(to);
  result.bandwidth = bandwidth;
  result.latency = latency;
  return result;
}

class Fabricator {
 public:
  explicit Fabricator(const Setting& setting) : setting_(setting), host_(devices_per_host(setting)) {
    spec_.name = name_of(setting.fabric);
    for (std::size_t d = 0; d < setting.devices; ++d) {
      const std::string name = "d" + std::to_string(d);
      Device device;
      if (setting.shape == Shape::network) {
        device = make_device(*find_device_kind("V100"), name);
      } else {
        device.name = name;
        device.device_class = "gpu";
        device.peak = FlopsPerSecond{d % 2 == 0 ? 1e9 : 1e9 / 1.37};  // a FLOP takes 1 or 1.37 ns
      }
      spec_.devices.push_back(device);
    }
  }

  Cluster make() {
    switch (setting_.fabric) {
      case Fabric::pairs:
        pairs(true);
        break;
      case Fabric::egress:
        for (const Device& device : spec_.devices) spec_.egresses.push_back({device.name, kFarRate, kFar});
        break;
      case Fabric::star:
        spec_.switches.push_back("switch");
        for (const Device& device : spec_.devices)
          spec_.links.push_back(link(device.name + "-switch", device.name, "switch", kNearRate, Nanoseconds{1'500}));
        break;
      case Fabric::nic:
        nics();
        break;
      case Fabric::switched:
        switches();
        break;
      case Fabric::hosts:
        spec_.fabric = FabricSpec{.hosts = setting_.devices / host_,
                                  .devices_per_host = host_,
                                  .port_bandwidth = kNearRate,
                                  .port_latency = Nanoseconds{1'500},
                                  .nics_per_host = host_,
                                  .nic_bandwidth = kFarRate,
                                  .nic_latency = Nanoseconds{3'500},
                                  .hosts_per_leaf = 32,
                                  .uplink_latency = Nanoseconds{500}};
        break;
    }
    return make_cluster(std::move(spec_));
  }

 private:
  const std::string& device(std::size_t d) const { return spec_.devices[d].name; }
  std::size_t hosts() const { return (setting_.devices + host_ - 1) / host_; }

  void pairs(bool between_hosts) {
    for (std::size_t a = 0; a < setting_.devices; ++a)
      for (std::size_t b = a + 1; b < setting_.devices; ++b) {
        const bool near = a / host_ == b / host_;
        if (!near && !between_hosts) break;
        spec_.links.push_back(
            link(device(a) + "-" + device(b), device(a), device(b), near ? kNearRate : kFarRate, near ? kNear : kFar));
      }
  }

  void nics() {
    pairs(false);
    spec_.switches.push_back("core");
    for (std::size_t h = 0; h < hosts(); ++h) {
      const std::string nic = "nic" + std::to_string(h);
      spec_.switches.push_back(nic);
      spec_.links.push_back(link(nic, nic, "core", kFarRate, Nanoseconds{3'000}));
      for (std::size_t d = h * host_; d < std::min(setting_.devices, (h + 1) * host_); ++d) {
        Link bus = link(device(d) + "-" + nic, device(d), nic, kFarRate, Nanoseconds{1'000});
        bus.sharing = Sharing::none;
        spec_.links.push_back(std::move(bus));
      }
    }
    keep_to_pairs();
  }

  /// Gives the route within a host, since the path through the NIC takes 2 us, the direct link 3 us.
  void keep_to_pairs() {
    for (std::size_t a = 0; a < setting_.devices; ++a)
      for (std::size_t b = a / host_ * host_; b < std::min(setting_.devices, (a / host_ + 1) * host_); ++b)
        if (a != b)
          spec_.routes.push_back({device(a), device(b), {device(std::min(a, b)) + "-" + device(std::max(a, b))}});
  }

  void switches() {
    spec_.switches.push_back("core");
    for (std::size_t h = 0; h < hosts(); ++h) {
      const std::string host = "switch" + std::to_string(h);
      spec_.switches.push_back(host);
      spec_.links.push_back(link(host, host, "core", kFarRate, Nanoseconds{2'500}));
      for (std::size_t d = h * host_; d < std::min(setting_.devices, (h + 1) * host_); ++d)
        spec_.links.push_back(link(device(d) + "-" + host, device(d), host, kNearRate, Nanoseconds{1'500}));
    }
  }

  const Setting setting_;
  const std::size_t host_;
  ClusterSpec spec_;
};

/// A GPT-2 with about `ops` ops, by its number of layers.
Graph network_graph(std::size_t ops) {
  TrainingOptions options;
  options.granularity = Granularity::fine;
  const auto with = [&](std::size_t layers) {
    return training_graph(make_network("gpt2:batch=4,layers=" + std::to_string(layers)), options);
  };
  const std::size_t two = with(2).op_count(), each = with(3).op_count() - two;
  return with(std::max<std::size_t>(2, 2 + (ops - std::min(ops, two)) / each));
}

/// Equal numbers of layers per device, in the order of their first ops. A colocation group follows its first op.
Placement by_layers(const Problem& problem) {
  const Graph& graph = problem.graph();
  std::map<std::string, std::size_t> layers;
  for (const OpId op : graph.ops()) layers.emplace(graph.layer(op), layers.size());
  Placement placement(graph.op_count());
  for (const OpId op : graph.ops()) {
    const OpId first = problem.group_ops(problem.group(op)).front();
    placement[op] = DeviceId{layers.at(graph.layer(first)) * problem.device_count() / layers.size()};
  }
  return placement;
}

Placement with_moves(const Problem& problem, const Placement& base, double share, Random& random) {
  Placement placement = base;
  const auto moves = static_cast<std::size_t>(share * static_cast<double>(problem.group_count()));
  for (std::size_t i = 0; i < moves; ++i) {
    const GroupId group{random.below(problem.group_count())};
    const DeviceId device{random.below(problem.device_count())};
    for (const OpId op : problem.group_ops(group)) placement[op] = device;
  }
  return placement;
}

Sketch sketch_of(const Setting& setting) {
  switch (setting.shape) {
    case Shape::layered:
      return layered(setting.ops, setting.devices, setting.width);
    case Shape::branched:
      return branched(setting.ops, setting.devices, setting.width);
    case Shape::transformer:
      return transformer_step(setting.ops, setting.devices);
    case Shape::network:
      break;
  }
  throw std::logic_error("a network has no sketch");
}

}  // namespace

const char* name_of(Shape shape) {
  static constexpr const char* kNames[] = {"layered", "branched", "transformer", "network"};
  return kNames[static_cast<std::size_t>(shape)];
}
const char* name_of(Fabric fabric) {
  static constexpr const char* kNames[] = {"pairs", "egress", "nic", "star", "switched", "hosts"};
  return kNames[static_cast<std::size_t>(fabric)];
}
std::string name_of(const Setting& setting) {
  std::string name = name_of(setting.shape);
  if (setting.width > 0) name += ":" + std::to_string(setting.width);
  return name + "/" + name_of(setting.fabric) + "/" + std::to_string(setting.ops) + "/" +
         std::to_string(setting.devices);
}

Workload make_workload(const Setting& setting, std::size_t placements, double moved) {
  Random random{1'000 * setting.ops + setting.devices};
  Cluster cluster = Fabricator{setting}.make();
  std::optional<Problem> problem;
  Placement base;
  if (setting.shape == Shape::network) {
    problem.emplace(network_graph(setting.ops), std::move(cluster));
    base = by_layers(*problem);
  } else {
    Sketch sketch = sketch_of(setting);
    for (const Sketch::Op& op : sketch.ops) base.push_back(DeviceId{op.home % setting.devices});
    Graph graph = build_graph(sketch, name_of(setting.shape));
    sketch = {};
    CostModel costs;
    costs.efficiencies = EfficiencyTable{};
    problem.emplace(std::move(graph), std::move(cluster), costs);
  }
  Workload result{setting, *problem, {}};
  for (std::size_t i = 0; i < placements; ++i) {
    Schedule schedule;
    schedule.placement = with_moves(*problem, base, moved, random);
    result.fifo.push_back(std::move(schedule));
  }
  return result;
}

std::vector<Schedule> strict_schedules(const Workload& workload) {
  Simulation simulation{workload.problem};
  std::vector<Schedule> result;
  for (const Schedule& fifo : workload.fifo) {
    const Timeline timeline = simulation.timeline(fifo);
    std::vector<OpId> ops = workload.problem.graph().topological_order();
    std::stable_sort(ops.begin(), ops.end(),
                     [&](OpId a, OpId b) { return timeline.ops[a].start < timeline.ops[b].start; });
    Schedule schedule = fifo;
    schedule.policy = Policy::strict;
    schedule.order.assign(workload.problem.device_count(), {});
    for (const OpId op : ops) schedule.order[schedule.placement[op]].push_back(op);
    result.push_back(std::move(schedule));
  }
  return result;
}

std::vector<Schedule> priority_schedules(const Workload& workload) {
  Random random{5};
  std::vector<Schedule> result = workload.fifo;
  for (Schedule& schedule : result) {
    schedule.policy = Policy::priority;
    for (std::size_t op = 0; op < workload.ops(); ++op) schedule.priority.push_back(random.uniform());
  }
  return result;
}

std::shared_ptr<const Workload> workload(const Setting& setting) {
  constexpr std::size_t kLarge = 200'000;
  static std::map<Setting, std::shared_ptr<const Workload>> made;
  if (const auto found = made.find(setting); found != made.end()) return found->second;
  if (setting.ops > kLarge)
    for (auto each = made.begin(); each != made.end();)
      each = each->first.ops > kLarge ? made.erase(each) : std::next(each);
  const bool small = setting.ops<1'000, huge = setting.ops> 2'000'000;
  const std::size_t placements = small ? 2'048 : huge ? 4 : 32;
  return made[setting] = std::make_shared<const Workload>(make_workload(setting, placements, small ? 0.2 : 0.05));
}

}  // namespace trainyard::bench
