#include "trainyard/io/foreign/measured_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/statistics.hpp"

namespace trainyard {
namespace {

using Peers = BandwidthReport::Peers;

constexpr double kGiga = 1e9;
// Latencies as in the built-in clusters (presets.cpp): an NVLink copy, half of one at each switch port, and one PCIe
// end.
constexpr Nanoseconds kNvLinkCopy{5'000}, kNvSwitchPort{2'500}, kPciePort{4'000};
/// Bandwidths in GB/s: the most that PCIe reaches, and that of one link of NVLink 2. V100s have one or two between a
/// pair.
constexpr double kMostOfPcie = 60, kOneNvLink2 = 24.2;
constexpr int kMostNvLinks = 18;  // of one GPU
constexpr double kHalfDuplex = 0.75, kSharedWay = 1.08;

std::vector<double> cells_of(const RateMatrix& matrix) {
  std::vector<double> cells;
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < matrix[i].size(); ++j)
      if (i != j && matrix[i][j]) cells.push_back(*matrix[i][j]);
  return cells;
}

class MachineMaker {
 public:
  MachineMaker(const MeasuredMachine& machine, const std::string& kind, const GpuTopology* topology)
      : machine_(machine), kind_(kind), topology_(topology), seats_(machine.count) {}

  BandwidthReport make() {
    seat_gpus();
    add_devices();
    report_.to_host = rates(machine_.to_host), report_.from_host = rates(machine_.from_host);
    report_.peers = peers();
    find_buses();
    add_host();
    add_peers();
    verify();
    return std::move(report_);
  }

 private:
  std::size_t count() const { return machine_.count; }
  static std::string gpu(std::size_t i) { return fmt::format("gpu{}", i); }
  static std::vector<BytesPerSecond> rates(const std::vector<double>& gigabytes) {
    std::vector<BytesPerSecond> rates;
    for (const double rate : gigabytes) rates.emplace_back(rate * kGiga);
    return rates;
  }
  std::optional<double> peer(std::size_t from, std::size_t to) const {
    return machine_.peers.empty() ? std::nullopt : machine_.peers[from][to];
  }

  /// Sets seats_[i] to the topology's index of GPU i. GPUs are matched by address if both have addresses, otherwise by
  /// order.
  void seat_gpus() {
    std::iota(seats_.begin(), seats_.end(), std::size_t{0});
    if (!topology_) return;
    if (topology_->size() != count())
      refuse("topology",
             fmt::format("the topology has {}, but the measurement has {}", counted(topology_->size(), "GPU"), count()),
             "give the topology of the same machine");
    if (machine_.addresses.size() != count() || topology_->addresses.empty()) return;
    for (std::size_t i = 0; i < count(); ++i) {
      const auto at = std::ranges::find_if(topology_->addresses, [&](const std::string& address) {
        return address.find(machine_.addresses[i]) != std::string::npos;
      });
      if (at == topology_->addresses.end())
        refuse("topology", fmt::format("the topology has no GPU at {}", machine_.addresses[i]),
               "give the topology of the same machine");
      seats_[i] = static_cast<std::size_t>(at - topology_->addresses.begin());
    }
  }

  /// Name of GPU i; empty if unknown.
  std::string_view name_of_gpu(std::size_t i) const {
    if (i < machine_.gpus.size() && !machine_.gpus[i].empty()) return machine_.gpus[i];
    return topology_ && !topology_->names.empty() ? std::string_view{topology_->names[seats_[i]]} : "";
  }

  void add_devices() {
    const DeviceKind* given = kind_.empty() ? nullptr : find_device_kind(kind_);
    if (!kind_.empty() && !given) {
      std::vector<std::string> known;
      for (const DeviceKind& each : device_kinds()) known.push_back(each.name);
      refuse("unknown-kind", fmt::format("no device kind is named '{}'", kind_), did_you_mean(kind_, known));
    }
    std::string_view unknown;
    for (std::size_t i = 0; i < count(); ++i) {
      const DeviceKind* kind = given ? given : kind_of_gpu(name_of_gpu(i));
      Device device{.name = gpu(i), .kind = "", .device_class = "gpu"};
      if (!kind && unknown.empty()) unknown = name_of_gpu(i);
      report_.cluster.devices.push_back(kind ? make_device(*kind, gpu(i)) : std::move(device));
    }
    if (std::ranges::any_of(report_.cluster.devices, [](const Device& device) { return device.kind.empty(); }))
      report_.notes.push_back((unknown.empty() ? std::string{"the file does not name its GPUs"}
                                               : fmt::format("no known kind of device is '{}'", unknown)) +
                              ": give one with --kind (`trainyard clusters` lists them), or memory, peak and "
                              "memory_bandwidth in the cluster file");
  }

  Peers peers() const {
    const std::vector<double> cells = cells_of(machine_.peers);
    if (count() < 2 || cells.empty()) return Peers::none;
    const bool nvlink2 = std::ranges::all_of(cells, [](double cell) {
      const double links = std::round(cell / kOneNvLink2);
      return (links == 1 || links == 2) && std::abs(links * kOneNvLink2 / cell - 1) < 0.015;
    });
    if (std::ranges::max(cells) <= kMostOfPcie && !nvlink2) return Peers::pcie;
    if (count() == 2 || cells.size() < count() * (count() - 1)) return Peers::links;
    const double median = median_of(cells);
    // Copies to all others at once: separate links add up, a port is shared.
    if (!machine_.one_to_all.empty())
      return median_of(machine_.one_to_all) < 1.25 * median ? Peers::ports : Peers::links;
    if (topology_ && !topology_->nvlinks.empty()) {
      const auto& links = topology_->nvlinks.front();
      return std::accumulate(links.begin(), links.end(), 0) > kMostNvLinks ? Peers::ports : Peers::links;
    }
    const bool even = std::ranges::all_of(cells, [&](double cell) { return std::abs(cell / median - 1) < 0.1; });
    return even && median > 150 ? Peers::ports : Peers::links;
  }

  /// Slowdown of GPU i's copies to the host (direction 0) or from it (1) when all GPUs copy at once: the apparent
  /// number of GPUs that share the path.
  double sharing(std::size_t direction, std::size_t i) const {
    return direction == 0 ? machine_.to_host[i] / machine_.all_to_host[i]
                          : machine_.from_host[i] / machine_.host_to_all[i];
  }

  void find_buses() {
    const bool up = !machine_.all_to_host.empty(), down = !machine_.host_to_all.empty();
    if (count() < 2 || (!up && !down)) return;
    if (topology_ && !topology_->bridges.empty())
      buses_of_bridges(up ? 0 : 1);
    else
      buses_of_neighbours(up ? 0 : 1);
    std::vector<double> shared(count(), 1);
    for (const auto& bus : report_.buses)
      for (const std::size_t i : bus) shared[i] = static_cast<double>(bus.size());
    for (std::size_t i = 0; i < count(); ++i) {
      if (up) worsen(report_.concurrent_error, sharing(0, i), shared[i]);
      if (down) worsen(report_.concurrent_error, sharing(1, i), shared[i]);
    }
    if (report_.concurrent_error > 0.15)
      report_.notes.push_back(
          fmt::format("when all GPUs copy to or from the host at once, the cluster's bandwidth is up to {:.0f} % off",
                      100 * report_.concurrent_error));
  }

  static void worsen(double& worst, double measured, double made) {
    worst = std::max(worst, std::abs(measured / made - 1));
  }

  void buses_of_bridges(std::size_t direction) {
    for (const auto& bridge : topology_->bridges) {
      std::vector<std::size_t> bus;
      for (std::size_t i = 0; i < count(); ++i)
        if (std::ranges::find(bridge, seats_[i]) != bridge.end()) bus.push_back(i);
      std::vector<double> slowed;
      for (const std::size_t i : bus) slowed.push_back(sharing(direction, i));
      if (median_of(slowed) >= kSharedWay) report_.buses.push_back(std::move(bus));
    }
  }

  void buses_of_neighbours(std::size_t direction) {
    for (std::size_t i = 0; i < count();) {
      const double k = sharing(direction, i);
      const auto g = static_cast<std::size_t>(std::lround(std::clamp(k, 1.0, static_cast<double>(count()))));
      bool alike = g >= 2 && std::abs(k - static_cast<double>(g)) < 0.25 && i + g <= count();
      for (std::size_t j = i; alike && j < i + g; ++j)
        alike = std::abs(sharing(direction, j) / k - 1) < 0.15 && package(j) == package(i);
      if (!alike) {
        ++i;
        continue;
      }
      std::vector<std::size_t>& bus = report_.buses.emplace_back(g);
      std::iota(bus.begin(), bus.end(), i);
      i += g;
    }
  }
  std::size_t package(std::size_t i) const { return topology_ ? topology_->package[seats_[i]] : 0; }

  /// Half duplex if both directions at once reach little more than one.
  Duplex duplex_to_host() {
    if (machine_.to_host_both.empty() || machine_.from_host_both.empty()) return Duplex::full;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < count(); ++i)
      ratios.push_back((machine_.to_host_both[i] + machine_.from_host_both[i]) /
                       (machine_.to_host[i] + machine_.from_host[i]));
    report_.host_both = median_of(ratios);
    return *report_.host_both < kHalfDuplex ? Duplex::half : Duplex::full;
  }

  /// Adds a link to the host for each GPU, with buses. Without measured copies to the host, uses the bandwidths of
  /// pairs that have no other path.
  void add_host() {
    std::vector<double> way;
    for (std::size_t i = 0; i < count(); ++i) {
      if (!machine_.to_host.empty()) {
        way.push_back(std::min(machine_.to_host[i], machine_.from_host[i]));
      } else {
        double most = 0;
        for (std::size_t j = 0; j < count(); ++j)
          if (i != j && !machine_.through_host.empty()) most = std::max(most, machine_.through_host[i][j].value_or(0));
        if (report_.peers == Peers::pcie)
          for (std::size_t j = 0; j < count(); ++j)
            if (i != j) most = std::max(most, peer(i, j).value_or(0));
        if (most > 0) way.push_back(most);
      }
    }
    if (way.size() != count()) return;
    const Duplex duplex = duplex_to_host();
    report_.cluster.switches.emplace_back("host");
    for (std::size_t i = 0; i < count(); ++i) {
      Link& link = add_link(gpu(i), "host", way[i], kPciePort, duplex);
      for (const auto& bus : report_.buses)
        if (std::ranges::find(bus, i) != bus.end()) link.bus = fmt::format("pcie-{}", gpu(bus.front()));
    }
  }

  /// Bandwidth of both directions of a pair at once over the sum of each alone.
  std::optional<double> both_of(std::size_t a, std::size_t b) const {
    if (machine_.peers_both.empty() || !machine_.peers_both[a][b] || !peer(a, b) || !peer(b, a)) return std::nullopt;
    return *machine_.peers_both[a][b] / (*peer(a, b) + *peer(b, a));
  }
  Duplex duplex_of(std::size_t a, std::size_t b) const {
    return both_of(a, b).value_or(1) < kHalfDuplex ? Duplex::half : Duplex::full;
  }

  void add_peers() {
    if (count() < 2) return;
    std::vector<double> both;
    for (std::size_t a = 0; a < count(); ++a)
      for (std::size_t b = a + 1; b < count(); ++b)
        if (const auto ratio = both_of(a, b)) both.push_back(*ratio);
    if (!both.empty()) report_.peers_both = median_of(both);
    if (report_.peers == Peers::ports) {
      const double port = median_of(cells_of(machine_.peers));
      report_.cluster.switches.emplace_back("nvswitch");
      for (std::size_t i = 0; i < count(); ++i)
        add_link(gpu(i), "nvswitch", port, kNvSwitchPort,
                 report_.peers_both.value_or(1) < kHalfDuplex ? Duplex::half : Duplex::full);
    }
    std::size_t derived = 0;
    bool estimated = false;
    for (std::size_t from = 0; from < count(); ++from)
      for (std::size_t to = 0; to < count(); ++to)
        if (from != to) add_pair(from, to, derived, estimated);
    if (derived > 0)
      report_.notes.push_back(fmt::format(
          "{} of {} pairs have no peer access: their rates are derived from a copy to the host and then one from it",
          derived, count() * (count() - 1)));
    if (estimated)
      report_.notes.emplace_back(
          "latencies of copies are estimates: the file has none, or only those of dependent loads");
  }

  void add_pair(std::size_t from, std::size_t to, std::size_t& derived, bool& estimated) {
    const auto there = peer(from, to), back = peer(to, from);
    const bool own = there && report_.peers == Peers::links;
    if (own && (from < to || !back))
      add_link(gpu(from), gpu(to), std::max(*there, back.value_or(0)), kNvLinkCopy, duplex_of(from, to));
    Nanoseconds latency = own                                      ? kNvLinkCopy
                          : there && report_.peers == Peers::ports ? 2 * kNvSwitchPort
                                                                   : 2 * kPciePort;
    const auto measured = machine_.latency_us.empty() ? std::nullopt : machine_.latency_us[from][to];
    if (measured)
      latency = nanoseconds_from_seconds(*measured * 1e-6);
    else
      estimated = true;
    report_.cluster.measured.push_back(
        {.from = gpu(from),
         .to = gpu(to),
         .latency = latency,
         .bandwidth = BytesPerSecond{(there ? *there : around(from, to, derived)) * kGiga}});
  }

  /// Bandwidth of a pair without peer access in GB/s: as measured, or that of a copy to the host followed by one from
  /// it, whose times add up.
  double around(std::size_t from, std::size_t to, std::size_t& derived) const {
    if (!machine_.through_host.empty() && machine_.through_host[from][to]) return *machine_.through_host[from][to];
    ++derived;
    return 1 / (1 / machine_.to_host[from] + 1 / machine_.from_host[to]);
  }

  Link& add_link(const std::string& from, const std::string& to, double gigabytes, Nanoseconds latency, Duplex duplex) {
    Link link{.name = from + "-" + to, .from = from, .to = to};
    link.bandwidth = BytesPerSecond{gigabytes * kGiga};
    link.latency = latency;
    link.duplex = duplex;
    report_.cluster.links.push_back(std::move(link));
    return report_.cluster.links.back();
  }

  /// Compares each pair's bandwidth in the cluster with its measurement, and the writes of one GPU to all others. Over
  /// separate links, equal amounts end with the slowest link; over a port they share its bandwidth.
  void verify() {
    const Cluster cluster = make_cluster(report_.cluster);
    for (std::size_t from = 0; from < count(); ++from)
      for (std::size_t to = 0; to < count(); ++to)
        if (from != to && peer(from, to))
          worsen(report_.pair_error, cluster.route(DeviceId{from}, DeviceId{to}).bandwidth.value,
                 *peer(from, to) * kGiga);
    if (machine_.one_to_all.empty() || (report_.peers != Peers::links && report_.peers != Peers::ports)) return;
    report_.one_to_all_error = 0;
    for (std::size_t from = 0; from < count(); ++from) {
      std::vector<double> links;
      for (std::size_t to = 0; to < count(); ++to)
        if (from != to && peer(from, to)) links.push_back(*peer(from, to));
      if (links.empty()) continue;
      const double copies = report_.peers == Peers::links ? static_cast<double>(links.size()) : 1;
      worsen(*report_.one_to_all_error, machine_.one_to_all[from], copies * std::ranges::min(links));
    }
  }

  const MeasuredMachine& machine_;
  const std::string& kind_;
  const GpuTopology* topology_;
  std::vector<std::size_t> seats_;
  BandwidthReport report_;
};

}  // namespace

const DeviceKind* kind_of_gpu(std::string_view name) {
  if (const std::size_t bracket = name.find('['); bracket != std::string_view::npos) {
    name.remove_prefix(bracket + 1);
    name = name.substr(0, name.find(']'));
  }
  return name == "H200 SXM 141GB" ? find_device_kind("H200") : find_gpu_product(name);
}

BandwidthReport machine_cluster(const MeasuredMachine& machine, const std::string& kind, const GpuTopology* topology) {
  return MachineMaker{machine, kind, topology}.make();
}

}  // namespace trainyard
