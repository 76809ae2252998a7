#include "support/naive.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace trainyard::test {
namespace {

__extension__ using Wide = __int128;

struct Task {
  // Description of the task:
  bool is_op = true;
  OpId op;                // an op, or the producer of a transfer
  TensorId tensor;        // of a transfer only
  DeviceId device;        // device of an op, source of a transfer
  std::set<DeviceId> to;  // destinations of a transfer
  Nanoseconds duration{};
  double priority = 0;
  std::set<std::pair<int, std::size_t>> resources;  // serial: (0, device) or (1, channel)
  std::multiset<std::size_t> shared;                // fair channels, with their number of simultaneous passes
  Nanoseconds latency{};
  double slowest = 0;           // bottleneck of the route in bytes per second
  std::vector<Transfer> parts;  // transfers of a collective
  std::map<ChannelId, Bytes> bytes_over;
  std::set<std::size_t> needs;  // tasks that must end first
  // State of the task:
  std::optional<Nanoseconds> ready, start, end;
  Wide left = -1;  // of a flow or a slowed op, in rate x nanoseconds; -1: not begun
  std::int64_t rate = -1;

  bool is_collective() const { return !is_op && tensor.is_none(); }
  bool is_flow() const { return !shared.empty() && duration > latency; }
  bool flows() const { return !is_op && left >= 0 && !end; }
  bool is_slowed() const { return is_op && rate >= 0 && start && !end; }
};

class World {
 public:
  World(const Problem& problem, const Schedule& schedule) : problem_(problem), schedule_(schedule) {
    const Graph& graph = problem.graph();
    for (const OpId op : graph.ops()) {
      Task task;
      task.op = op;
      task.device = schedule.placement[op];
      task.duration = problem.duration(op, task.device);
      if (schedule.links_by_priority()) task.priority = schedule.priority[op];
      task.resources = {{0, task.device.index()}};
      tasks_.push_back(task);
    }
    for (const TensorId tensor : graph.tensors()) add_transfers(tensor);
    for (const OpId op : graph.ops()) {
      if (graph.collective(op)) {
        tasks_[op.index()].needs = {tasks_.size()};  // the op ends with the collective
        add_collective(op);
        continue;
      }
      for (const TensorId tensor : graph.inputs(op)) tasks_[op.index()].needs.insert(bringer(tensor, op));
      for (const OpId earlier : graph.after(op)) tasks_[op.index()].needs.insert(earlier.index());
    }
  }

  Timeline run() {
    Nanoseconds now{0};
    while (true) {
      complete(now);
      dispatch(now);
      begin_flows(now);
      give_rates();
      slow_ops();
      const auto next = next_instant(now);
      if (!next) break;
      now = *next;
      move_bytes(now);
    }
    for (const Task& task : tasks_)
      if (!task.end) throw std::logic_error("a task never ran");
    return timeline();
  }

 private:
  void add_transfers(TensorId tensor) {
    const Graph& graph = problem_.graph();
    const Cluster& cluster = problem_.cluster();
    const OpId producer = graph.producer(tensor);
    const DeviceId from = schedule_.placement[producer];
    // Sets of destinations that are served by one transfer.
    std::vector<std::set<DeviceId>> sets;
    std::set<DeviceId> broadcast, destinations;
    for (const OpId consumer : graph.consumers(tensor)) destinations.insert(schedule_.placement[consumer]);
    destinations.erase(from);
    for (const DeviceId to : destinations) {
      const Route route = cluster.route(from, to);
      if (route.links.size() == 1 && route.channels.size() == 1 && cluster.channel(route.channels[0]).broadcast)
        broadcast.insert(to);
      else
        sets.push_back({to});
    }
    if (!broadcast.empty()) sets.push_back(broadcast);
    std::ranges::sort(sets);  // by lowest destination
    for (const auto& to : sets) {
      Task task;
      task.is_op = false;
      task.op = producer;
      task.tensor = tensor;
      task.device = from;
      task.to = to;
      task.duration = problem_.transfer_time(tensor, from, *to.begin());
      bool first = true;
      for (const OpId consumer : graph.consumers(tensor))
        if (to.contains(schedule_.placement[consumer])) {
          const double priority = tasks_[consumer.index()].priority;
          task.priority = first ? priority : std::max(task.priority, priority);
          first = false;
        }
      for (const ChannelId channel : cluster.route(from, *to.begin()).channels) {
        if (cluster.channel(channel).fair)
          task.shared.insert(channel.index());
        else
          task.resources.insert({1, channel.index()});
      }
      task.latency = problem_.transfer_latency(from, *to.begin());
      task.slowest = cluster.route(from, *to.begin()).bandwidth.value;
      task.needs = {producer.index()};
      tasks_.push_back(task);
    }
  }

  /// The rings of a collective over hosts: one for each network card of a host. A ring passes each host's devices
  /// starting at that card's first one, and every other host in the opposite direction. There is only one ring unless
  /// all hosts have equally many devices at equal positions.
  std::vector<std::vector<DeviceId>> rings_over_hosts(const std::vector<DeviceId>& order) const {
    const auto& fabric = problem_.cluster().spec().fabric;
    if (!fabric) return {order};
    std::vector<std::vector<std::size_t>> places;  // positions in each host, hosts in order
    std::vector<std::size_t> hosts;
    for (const DeviceId device : order) {
      const std::size_t host = device.index() / fabric->devices_per_host;
      if (hosts.empty() || hosts.back() != host) {
        hosts.push_back(host);
        places.emplace_back();
      }
      places.back().push_back(device.index() % fabric->devices_per_host);
    }
    if (std::set<std::size_t>(hosts.begin(), hosts.end()).size() != hosts.size() || hosts.size() == 1) return {order};
    for (const auto& host : places)
      if (host != places.front() || host.size() == 1) return {order};
    std::vector<std::vector<DeviceId>> rings;
    const std::size_t cards = std::min(fabric->nics_per_host, fabric->devices_per_host);  // cards, or bundles of cards
    const std::size_t a_card = fabric->devices_per_host / cards;
    for (std::size_t card = 0; card < cards; ++card) {
      std::vector<std::size_t> way = places.front();
      const auto first = std::ranges::find_if(way, [&](std::size_t place) { return place / a_card == card; });
      if (first == way.end()) continue;
      std::rotate(way.begin(), first, way.end());
      rings.emplace_back();
      for (const std::size_t host : hosts) {
        for (const std::size_t place : way) rings.back().push_back(DeviceId{host * fabric->devices_per_host + place});
        std::ranges::reverse(way);
      }
    }
    return rings;
  }

  using Rings = std::vector<std::vector<DeviceId>>;

  /// The rings of a box in a torus, for each dimension: every line of the box, in both directions. Empty if the devices
  /// form no box.
  std::vector<Rings> rings_of_box(const std::vector<DeviceId>& order) const {
    const auto& fabric = problem_.cluster().spec().fabric;
    if (!fabric || fabric->torus.empty() || order.size() < 2) return {};
    std::map<std::vector<std::size_t>, DeviceId> at;  // (host, position in each dimension) -> device
    std::vector<std::set<std::size_t>> places(fabric->torus.size() + 1);
    for (const DeviceId device : order) {
      std::vector<std::size_t> place{device.index() / fabric->devices_per_host};
      std::size_t rest = device.index() % fabric->devices_per_host;
      for (const std::size_t size : fabric->torus) {
        place.push_back(rest % size);
        rest /= size;
      }
      for (std::size_t k = 0; k < place.size(); ++k) places[k].insert(place[k]);
      at[place] = device;
    }
    std::size_t box = 1;
    for (const auto& each : places) box *= each.size();
    if (box != order.size() || places[0].size() > 1) return {};
    std::vector<Rings> dimensions;
    for (std::size_t k = 1; k < places.size(); ++k) {
      if (places[k].size() == 1) continue;
      dimensions.emplace_back();
      for (const auto& [place, first] : at) {
        if (place[k] != *places[k].begin()) continue;
        std::vector<DeviceId> line;
        for (auto next = place; const std::size_t x : places[k]) {
          next[k] = x;
          line.push_back(at.at(next));
        }
        dimensions.back().push_back(line);
        std::ranges::reverse(line);
        dimensions.back().push_back(line);
      }
    }
    return dimensions;
  }

  /// Adds a collective, step by step: the bytes that each device sends to another, and the duration of the step.
  void add_collective(OpId op) {
    const Graph& graph = problem_.graph();
    const Cluster& cluster = problem_.cluster();
    const CollectiveTask& collective = *graph.collective(op);
    using Kind = CollectiveKind;
    Task task;
    task.is_op = false;
    task.op = op;
    task.tensor = TensorId::none();
    std::vector<DeviceId> order;
    const auto add_member = [&](OpId each) {
      const DeviceId device = schedule_.placement[each];
      if (std::ranges::find(order, device) == order.end()) order.push_back(device);
    };
    for (const OpId source : graph.after(op)) {
      task.needs.insert(source.index());
      add_member(source);
    }
    bool first = true;
    for (const OpId member : graph.before(op)) {
      add_member(member);
      const double priority = tasks_[member.index()].priority;
      task.priority = first ? priority : std::max(task.priority, priority);
      first = false;
    }
    const auto n = static_cast<std::int64_t>(order.size());
    const auto after = [&](std::int64_t i, std::int64_t k) { return order[static_cast<std::size_t>((i + k) % n)]; };
    const bool shift = collective.kind == Kind::shift;
    const bool rings = collective.kind != Kind::all_to_all && collective.kind != Kind::broadcast && !shift;
    const std::vector<Rings> box = rings ? rings_of_box(order) : std::vector<Rings>{};
    const Rings orders = rings && n > 1 ? rings_over_hosts(order) : Rings{order};
    const auto parts = n * static_cast<std::int64_t>(orders.size());
    // Each step has the bytes of a hop and the stride from sender to receiver.
    std::vector<std::pair<std::int64_t, std::int64_t>> steps;
    const std::int64_t share = shift ? collective.bytes.count : (collective.bytes.count + n - 1) / n;
    const std::int64_t of_ring = (collective.bytes.count + parts - 1) / parts;
    for (std::int64_t k = 1; k < (shift ? std::min<std::int64_t>(n, 2) : n) && box.empty(); ++k) {
      steps.emplace_back(rings ? of_ring : share, collective.kind == Kind::all_to_all ? k : 1);
      if (collective.kind == Kind::all_reduce) steps.emplace_back(of_ring, 1);
    }
    const bool chain = collective.kind == Kind::broadcast;
    std::map<ChannelId, std::int64_t> passed;  // hops over each fair channel in all steps
    std::int64_t counted = 0;
    Nanoseconds bytes_alone{0};  // byte time of a step, without latencies
    const auto add_step_of = [&](const Rings& rounds, std::int64_t bytes, std::int64_t stride, bool counts) {
      counted += counts;
      Nanoseconds longest{0}, latency{0};
      bytes_alone = Nanoseconds{0};
      std::map<ChannelId, Nanoseconds> flows, waits;  // sum over all rings; maximum over rings
      for (const std::vector<DeviceId>& each : rounds) {
        std::map<ChannelId, Nanoseconds> in_turn;
        const auto length = static_cast<std::int64_t>(each.size());
        for (std::int64_t i = 0; i < (chain ? length - 1 : length); ++i) {
          const DeviceId from = each[static_cast<std::size_t>(i)];
          const DeviceId to = each[static_cast<std::size_t>((i + stride) % length)];
          const Nanoseconds wait = problem_.transfer_latency(from, to);
          const Nanoseconds flow =
              problem_.costs().byte_time(Bytes{bytes}, cluster.route_classes()[cluster.route_class(from, to)]);
          longest = std::max(longest, wait + flow);
          bytes_alone = std::max(bytes_alone, flow);
          latency = std::max(latency, wait);
          const double bandwidth = cluster.route(from, to).bandwidth.value;
          if (task.slowest == 0 || bandwidth < task.slowest) task.slowest = bandwidth;
          for (const ChannelId channel : cluster.route(from, to).channels) {
            const bool fair = cluster.channel(channel).fair;
            flows[channel] += flow;
            if (!fair) in_turn[channel] += wait;
            waits[channel] = std::max(waits[channel], in_turn[channel]);
            task.bytes_over[channel] += chain ? Bytes{0} : Bytes{bytes};
            if (fair)
              passed[channel] += counts;
            else
              task.resources.insert({1, channel.index()});
          }
        }
      }
      for (const auto& [channel, flow] : flows) {
        longest = std::max(longest, flow + waits[channel]);
        bytes_alone = std::max(bytes_alone, flow);
      }
      return std::pair{longest, latency};
    };
    const auto add_step = [&](std::int64_t bytes, std::int64_t stride) {
      return add_step_of(orders, bytes, stride, true);
    };
    if (n > 1 && chain) {
      const auto [whole, wait] = add_step(collective.bytes.count, 1);
      const double pieces =
          std::round(std::sqrt(static_cast<double>(n - 2) * static_cast<double>((whole - wait).count) /
                               static_cast<double>(std::max<std::int64_t>(1, wait.count))));
      const auto k = std::clamp(static_cast<std::int64_t>(pieces), std::int64_t{1},
                                std::max(std::int64_t{1}, collective.bytes.count));
      steps.assign(static_cast<std::size_t>(n - 2 + k), {(collective.bytes.count + k - 1) / k, 1});
    }
    for (const auto& [bytes, stride] : steps) {
      const auto [time, latency] = add_step(bytes, stride);
      task.duration += time;
      task.latency += latency;
    }
    if (collective.kind == Kind::all_reduce && cluster.spec().fabric && n > 1 && box.empty()) {
      // Trees: the path goes from the last device of a host to its first, up the levels of hosts, and back down.
      const std::size_t of_host = cluster.spec().fabric->devices_per_host;
      std::map<std::size_t, std::int64_t> hosts;
      Nanoseconds within{0}, between{0};
      for (std::int64_t i = 0; i < n; ++i) {
        const DeviceId from = orders.front()[static_cast<std::size_t>(i)],
                       to = orders.front()[static_cast<std::size_t>((i + 1) % n)];
        ++hosts[from.index() / of_host];
        Nanoseconds& longest = from.index() / of_host == to.index() / of_host ? within : between;
        longest = std::max(longest, problem_.transfer_latency(from, to));
      }
      Nanoseconds way{0};
      for (std::size_t reached = 1; reached < hosts.size(); reached *= 2) way += between;
      std::int64_t most = 0;
      for (const auto& [host, devices] : hosts) most = std::max(most, devices);
      way += (most - 1) * within;
      if (hosts.size() > 1 && 2 * way + 2 * n * bytes_alone < task.duration) {
        task.duration = 2 * way + 2 * n * bytes_alone;
        task.latency = 2 * way;
      }
    }
    const std::int64_t passes = collective.kind == Kind::all_reduce ? 2 : 1;
    // Each part of the data passes all dimensions of a box. All parts move at once, each along another dimension.
    for (std::size_t phase = 0; phase < box.size(); ++phase) {
      Nanoseconds longest{0}, latency{0};
      for (std::size_t part = 0; part < box.size(); ++part) {
        std::int64_t shares = 2 * static_cast<std::int64_t>(box.size());
        for (std::size_t k = 0; k <= phase; ++k)
          shares *= static_cast<std::int64_t>(box[(part + k) % box.size()].front().size());
        const Rings& along = box[(part + phase) % box.size()];
        Nanoseconds time{0}, waits{0};
        for (std::size_t step = 0; step < static_cast<std::size_t>(passes) * (along.front().size() - 1); ++step) {
          const auto [each, wait] =
              add_step_of(along, (collective.bytes.count + shares - 1) / shares, 1, phase == 0 && step == 0);
          time += each;
          waits += wait;
        }
        if (time > longest) {
          longest = time;
          latency = waits;
        }
      }
      task.duration += longest;
      task.latency += latency;
    }
    if (!box.empty()) counted = 1;
    for (const auto& [channel, hops] : passed)
      for (std::int64_t i = 0; i * counted < hops; ++i) task.shared.insert(channel.index());
    const std::int64_t sent = chain || shift ? collective.bytes.count : passes * (n - 1) * share;
    for (std::int64_t i = 0; chain && i + 1 < n; ++i)
      for (const ChannelId channel : cluster.route(after(i, 0), after(i, 1)).channels)
        task.bytes_over[channel] += collective.bytes;
    std::set<DeviceId> served;
    if (chain) served.insert(order.front());
    for (const OpId member : graph.before(op)) {
      const DeviceId to = schedule_.placement[member];
      if (n == 1 || graph.outputs(member).empty() || !served.insert(to).second) continue;
      const auto at = std::ranges::find(order, to) - order.begin();
      task.parts.push_back({*graph.outputs(member).begin(), after(at, n - 1), to, Bytes{sent}, {}, {}, {}, {}});
    }
    tasks_.push_back(task);
  }

  /// The task that makes `tensor` present for `consumer`.
  std::size_t bringer(TensorId tensor, OpId consumer) const {
    const OpId producer = problem_.graph().producer(tensor);
    const DeviceId at = schedule_.placement[consumer];
    if (schedule_.placement[producer] == at) return producer.index();
    for (std::size_t i = problem_.op_count(); i < tasks_.size(); ++i)
      if (tasks_[i].tensor == tensor && tasks_[i].to.contains(at)) return i;
    throw std::logic_error("nothing brings the tensor");
  }

  bool is_ready(const Task& task) const {
    return std::ranges::all_of(task.needs, [&](std::size_t need) { return ended_.contains(need); });
  }

  /// Phase one: ends and readies tasks until nothing changes.
  void complete(Nanoseconds now) {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        Task& task = tasks_[i];
        if (!task.ready && is_ready(task)) {
          task.ready = now;
          if (task.duration == Nanoseconds{0}) task.start = task.end = now;
          changed = true;
        }
        if (task.end && *task.end == now && ended_.insert(i).second) changed = true;
      }
    }
  }

  Nanoseconds gap(std::pair<int, std::size_t> resource) const {
    return resource.first == 0 ? problem_.cluster().device(DeviceId{resource.second}).gap
                               : problem_.cluster().channel(ChannelId{resource.second}).gap;
  }

  bool is_idle(std::pair<int, std::size_t> resource, Nanoseconds now) const {
    return std::ranges::none_of(tasks_, [&](const Task& task) {
      return task.start && task.duration > Nanoseconds{0} && task.resources.contains(resource) &&
             (!task.end || now < *task.end + gap(resource));
    });
  }

  static bool is_waiting(const Task& task) { return task.ready && !task.start; }

  /// Whether the task is the first that waits for the resource.
  bool is_first(const Task& task, std::pair<int, std::size_t> resource) const {
    if (schedule_.policy == Policy::strict && task.is_op) {
      for (const OpId op : schedule_.order[task.device])
        if (const Task& other = tasks_[op.index()]; !other.start && other.duration > Nanoseconds{0})
          return op == task.op;
      return false;
    }
    const auto rank = [](const Task& t) {
      return std::tuple(-t.priority, *t.ready, t.is_collective(), t.op, t.tensor,
                        t.to.empty() ? DeviceId{0} : *t.to.begin());
    };
    return std::ranges::none_of(tasks_, [&](const Task& other) {
      return is_waiting(other) && other.resources.contains(resource) && rank(other) < rank(task);
    });
  }

  /// Phase two: starts the waiting tasks whose resources are idle and whose turn it is.
  void dispatch(Nanoseconds now) {
    for (Task& task : tasks_) {
      if (!is_waiting(task)) continue;
      if (std::ranges::all_of(task.resources, [&](const auto& resource) {
            return is_idle(resource, now) && is_first(task, resource);
          })) {
        task.start = now;
        if (task.is_op && problem_.copies_slow_ops())
          task.left = static_cast<Wide>(task.duration.count) << 40;
        else if (!task.is_flow())
          task.end = now + task.duration;
      }
    }
  }

  // Fair sharing. Bandwidths are integers: scaled by powers of two until the largest fair one is in [2^62, 2^63), then
  // truncated.

  std::int64_t units(double bandwidth) const {
    double largest = 0;
    for (const ChannelId channel : problem_.cluster().channels())
      if (problem_.cluster().channel(channel).fair)
        largest = std::max(largest, problem_.cluster().channel(channel).bandwidth.value);
    if (largest == 0) return 0;
    for (; largest >= 9223372036854775808.0; largest /= 2) bandwidth /= 2;
    for (; largest < 4611686018427387904.0; largest *= 2) bandwidth *= 2;
    return bandwidth >= 9223372036854775808.0 ? std::numeric_limits<std::int64_t>::max()
                                              : static_cast<std::int64_t>(bandwidth);
  }

  /// The rate of a flow without competing flows.
  std::int64_t rate_alone(const Task& task) const {
    std::int64_t rate = units(task.slowest);
    for (const std::size_t channel : task.shared)
      rate = std::min(rate, units(problem_.cluster().channel(ChannelId{channel}).bandwidth.value) /
                                static_cast<std::int64_t>(task.shared.count(channel)));
    return rate;
  }

  void begin_flows(Nanoseconds now) {
    for (Task& task : tasks_)
      if (task.is_flow() && task.left < 0 && task.start && *task.start + task.latency == now)
        task.left = static_cast<Wide>((task.duration - task.latency).count) * rate_alone(task);
  }

  /// Progressive filling: finds the smallest share that a channel or flow offers, fixes the rate of all flows limited
  /// by it, and repeats.
  void give_rates() {
    for (Task& task : tasks_) task.rate = -1;
    while (true) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      std::set<std::size_t> full, fastest;  // channels and flows with this share
      const auto offer = [&](std::int64_t share, std::set<std::size_t>& of, std::size_t which) {
        if (share < least) {
          full.clear();
          fastest.clear();
        }
        least = std::min(least, share);
        if (share == least) of.insert(which);
      };
      for (const ChannelId channel : problem_.cluster().channels()) {
        std::int64_t unrated = 0, rest = units(problem_.cluster().channel(channel).bandwidth.value);
        for (const Task& task : tasks_) {
          if (!task.flows()) continue;
          const auto times = static_cast<std::int64_t>(task.shared.count(channel.index()));
          if (task.rate < 0)
            unrated += times;
          else
            rest -= times * task.rate;
        }
        if (unrated > 0) offer(rest / unrated, full, channel.index());
      }
      for (std::size_t i = 0; i < tasks_.size(); ++i)
        if (tasks_[i].flows() && tasks_[i].rate < 0) offer(rate_alone(tasks_[i]), fastest, i);
      if (full.empty() && fastest.empty()) return;
      for (std::size_t i = 0; i < tasks_.size(); ++i)
        if (tasks_[i].flows() && tasks_[i].rate < 0 &&
            (fastest.contains(i) ||
             std::ranges::any_of(tasks_[i].shared, [&](std::size_t channel) { return full.contains(channel); })))
          tasks_[i].rate = least;
    }
  }

  /// Sets the rates of running ops that copies, or ops of devices with the same memory, slow down: 2^40 / (1 +
  /// sensitivity x share of the memory's bandwidth) a nanosecond.
  void slow_ops() {
    for (Task& op : tasks_) {
      if (!op.is_op || !op.start || op.end || !problem_.copies_slow_ops()) continue;
      std::int64_t millionths = 0;
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        const Task& copy = tasks_[i];
        if (!copy.start || copy.duration == Nanoseconds{0} || ended_.contains(i)) continue;
        const auto loads = [&](DeviceId device, Bytes bytes) {
          const Device &one = problem_.cluster().device(device), &own = problem_.cluster().device(op.device);
          if (device != op.device && (one.part_of.empty() || one.part_of != own.part_of)) return;
          if (own.memory_bandwidth.value <= 0) return;
          const double share = static_cast<double>(bytes.count) / (static_cast<double>(copy.duration.count) * 1e-9) /
                               own.memory_bandwidth.value;
          millionths += std::llround(std::min(1.0, share) * 1e6);
        };
        if (copy.is_op) {
          if (copy.device != op.device) loads(copy.device, problem_.graph().bytes_accessed(copy.op));
          continue;
        }
        std::set<DeviceId> devices = copy.to;
        devices.insert(copy.device);
        if (copy.is_collective()) {
          devices.clear();
          for (const OpId member : problem_.graph().after(copy.op)) devices.insert(schedule_.placement[member]);
          for (const OpId member : problem_.graph().before(copy.op)) devices.insert(schedule_.placement[member]);
        }
        const Bytes bytes =
            copy.is_collective() ? problem_.graph().collective(copy.op)->bytes : problem_.graph().bytes(copy.tensor);
        for (const DeviceId device : devices) loads(device, bytes);
      }
      const std::int64_t slower =
          1'000'000'000 + std::min<std::int64_t>(1'000'000, millionths) * problem_.copy_sensitivity(op.op, op.device);
      op.rate = static_cast<std::int64_t>((static_cast<Wide>(1'000'000'000) << 40) / slower);
    }
  }

  /// Moves the bytes of the nanosecond that ends at `now`.
  void move_bytes(Nanoseconds now) {
    for (Task& task : tasks_) {
      if (!task.flows() && !task.is_slowed()) continue;
      task.left -= task.rate;
      if (2 * task.left < task.rate) task.end = now;
    }
  }

  /// The next time at which a task or a gap ends; while bytes flow, the next nanosecond.
  std::optional<Nanoseconds> next_instant(Nanoseconds now) const {
    std::optional<Nanoseconds> next;
    const auto offer = [&](Nanoseconds time) {
      if (time > now && (!next || time < *next)) next = time;
    };
    for (const Task& task : tasks_) {
      if (task.flows() || task.is_slowed()) offer(now + Nanoseconds{1});
      if (task.is_flow() && task.start) offer(*task.start + task.latency);
      if (task.end) {
        offer(*task.end);
        for (const auto& resource : task.resources) offer(*task.end + gap(resource));
      }
    }
    return next;
  }

  struct Hold {
    Nanoseconds from, until;
    Bytes bytes;
  };

  std::vector<Hold> holdings(DeviceId device, Nanoseconds makespan) const {
    const Graph& graph = problem_.graph();
    std::vector<Hold> result;
    for (const OpId op : graph.ops())
      if (schedule_.placement[op] == device)
        result.push_back({*tasks_[op.index()].start, *tasks_[op.index()].end, graph.workspace_bytes(op)});
    for (const TensorId tensor : graph.tensors()) {
      const Task& producer = tasks_[graph.producer(tensor).index()];
      Nanoseconds last_local_use{0};
      for (const OpId consumer : graph.consumers(tensor))
        if (schedule_.placement[consumer] == device)
          last_local_use = std::max(last_local_use, *tasks_[consumer.index()].end);
      if (producer.device == device) {
        Nanoseconds until = std::max(*producer.end, last_local_use);
        for (const Task& task : tasks_)
          if (!task.is_op && task.tensor == tensor) until = std::max(until, *task.end);
        if (graph.kept(tensor)) until = makespan;
        Nanoseconds from = *producer.start;
        for (const Task& task : tasks_)
          for (const Transfer& part : task.parts)
            if (part.tensor == tensor) from = *task.start;
        result.push_back({from, until, graph.bytes(tensor)});
      }
      for (const Task& task : tasks_)
        if (!task.is_op && task.tensor == tensor && task.to.contains(device))
          result.push_back({*task.start, last_local_use, graph.bytes(tensor)});
    }
    return result;
  }

  void account_device(DeviceId device, Timeline& timeline) const {
    DeviceUse& use = timeline.devices[device];
    Bytes resident{0};
    std::set<Nanoseconds> instants{Nanoseconds{0}};
    for (const Task& task : tasks_) {
      instants.insert(*task.start);
      instants.insert(*task.end);
      if (!task.is_op || task.device != device) continue;
      use.busy += *task.end - *task.start;
      resident += problem_.resident_bytes(task.op);
    }
    // Memory: the sum of all holdings, at every instant at which it can rise.
    const auto holds = holdings(device, timeline.makespan);
    use.peak = Bytes{-1};
    for (const Nanoseconds at : instants) {
      Bytes held = resident;
      for (const Hold& hold : holds)
        if (hold.from <= at && at < hold.until) held += hold.bytes;
      if (held > use.peak) {
        use.peak = held;
        use.peak_at = at;
      }
    }
    // Between two instants nothing changes.
    for (auto at = instants.begin(); std::next(at) != instants.end(); ++at) {
      bool runs = false, moves = false;
      for (const Task& task : tasks_) {
        if (*task.start > *at || *task.end <= *at) continue;
        if (task.is_op && task.device == device) runs = true;
        if (!task.is_op && !task.is_collective() && (task.device == device || task.to.contains(device))) moves = true;
        for (const Transfer& part : task.parts) moves = moves || part.from == device || part.to == device;
      }
      if (moves && !runs) use.exposed_communication += *std::next(at) - *at;
    }
  }

  Timeline timeline() const {
    Timeline result{};
    result.ops = IdMap<OpId, Span>(problem_.op_count());
    result.devices.assign(problem_.device_count(), {});
    result.channels.assign(problem_.cluster().channel_count(), {});
    for (const Task& task : tasks_) {
      if (task.is_op) {
        result.ops[task.op] = {*task.start, *task.end};
        result.makespan = std::max(result.makespan, *task.end);
      } else if (task.is_collective()) {
        for (Transfer part : task.parts) {
          part.ready = *task.ready, part.start = *task.start, part.end = *task.end;
          result.transfers.push_back(part);
        }
        if (task.parts.empty()) continue;
        for (const auto& [kind, channel] : task.resources)
          result.channels[ChannelId{channel}].busy += *task.end - *task.start;
        for (const auto& [channel, bytes] : task.bytes_over) result.channels[channel].bytes += bytes;
      } else {
        const Bytes bytes = problem_.graph().bytes(task.tensor);
        result.transfers.push_back({task.tensor,
                                    task.device,
                                    *task.to.begin(),
                                    bytes,
                                    *task.ready,
                                    *task.start,
                                    *task.end,
                                    {std::next(task.to.begin()), task.to.end()}});
        for (const auto& [kind, channel] : task.resources) {
          result.channels[ChannelId{channel}].busy += *task.end - *task.start;
          result.channels[ChannelId{channel}].bytes += bytes;
        }
        for (const std::size_t channel : task.shared) result.channels[ChannelId{channel}].bytes += bytes;
      }
    }
    std::ranges::sort(result.transfers, {}, [](const Transfer& t) { return std::pair{t.tensor, t.to}; });
    std::set<Nanoseconds> instants;
    for (const Task& task : tasks_) instants.insert({*task.start, *task.end});
    for (const ChannelId channel : problem_.cluster().channels())
      for (auto at = instants.begin(); at != instants.end() && std::next(at) != instants.end(); ++at)
        if (std::ranges::any_of(tasks_, [&](const Task& task) {
              return (!task.is_collective() || !task.parts.empty()) && task.shared.contains(channel.index()) &&
                     *task.start <= *at && *at < *task.end;
            }))
          result.channels[channel].busy += *std::next(at) - *at;
    for (const DeviceId device : problem_.devices()) account_device(device, result);
    return result;
  }

  const Problem& problem_;
  const Schedule& schedule_;
  std::vector<Task> tasks_;  // ops, then transfers by (producer, tensor, lowest destination)
  std::set<std::size_t> ended_;
};

}  // namespace

Timeline naive_simulate(const Problem& problem, const Schedule& schedule) { return World{problem, schedule}.run(); }

}  // namespace trainyard::test
