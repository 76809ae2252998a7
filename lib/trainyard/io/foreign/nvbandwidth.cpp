#include "trainyard/io/foreign/nvbandwidth.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_value.hpp"

namespace trainyard {
namespace {

using namespace detail;

/// GB/s; nothing where the file says "N/A".
using Cell = std::optional<double>;
using Matrix = std::vector<std::vector<Cell>>;

constexpr double kGiga = 1e9;
// As of the built-in clusters (presets.cpp): half a copy over NVLink at each port, PCIe at each end.
constexpr Nanoseconds kNvLinkCopy{5'000}, kNvSwitchPort{2'500}, kPciePort{4'000};
/// Bandwidth of one link in GB/s: the largest that PCIe reaches, and NVLink 2's, of which V100s have one or two between
/// a pair.
constexpr double kMostOfPcie = 60, kNvLink2 = 24.2;
/// GPUs of one machine: far more than there are.
constexpr std::size_t kMostGpus = 64;

/// The tests of a file by name.
class Tests {
 public:
  Tests(const JsonValue& list, FindingList& findings) : list_(list), findings_(findings) {}

  /// The matrix of a test; nothing where it is missing or did not pass.
  std::optional<Matrix> matrix(std::string_view name) {
    for (const JsonValue test : list_.children()) {
      if (test.kind() != JsonKind::object) continue;
      const auto title = test.find("name"), status = test.find("status"), rows = test.find("bandwidth_matrix");
      if (!title || title->text() != name) continue;
      if (!status || status->text() != "Passed" || !rows || rows->kind() != JsonKind::array) return std::nullopt;
      Matrix matrix;
      for (const JsonValue row : rows->children()) {
        if (!expect(row, JsonKind::array, findings_)) return std::nullopt;
        matrix.emplace_back();
        for (const JsonValue cell : row.children()) matrix.back().push_back(read_cell(cell));
      }
      return matrix;
    }
    return std::nullopt;
  }
  /// A test of one row, which has to be there.
  std::vector<Cell> required_row(std::string_view name) {
    auto all = matrix(name);
    if (all && all->size() == 1 && !all->front().empty()) return std::move(all->front());
    findings_.add(list_.begin_offset(), "nvbandwidth", fmt::format("the test '{}' is missing, or did not pass", name),
                  "run nvbandwidth -j again, with all tests");
    return {};
  }

 private:
  Cell read_cell(const JsonValue& cell) {
    const std::string_view text = cell.text();
    if (text == "N/A") return std::nullopt;
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc{} && result.ptr == text.data() + text.size() && std::isfinite(value) && value > 0)
      return value;
    findings_.add(cell.begin_offset(), "cell", fmt::format("'{}' is no bandwidth in GB/s", text),
                  "a number above 0, or N/A");
    return std::nullopt;
  }

  JsonValue list_;
  FindingList& findings_;
};

/// "Tesla V100-SXM2-16GB" of "0: Tesla V100-SXM2-16GB (00000000:00:17.0)".
std::string_view gpu_name(std::string_view gpu) {
  gpu.remove_prefix(std::min(gpu.size(), gpu.find(": ") == std::string_view::npos ? 0 : gpu.find(": ") + 2));
  return gpu.substr(0, gpu.find(" ("));
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name, const std::string& kind)
      : findings_(name, text), text_(text), kind_(kind) {}

  BandwidthReport read() {
    JsonTree tree;
    const auto root = parse_json(text_, tree, findings_);
    findings_.raise_if_any();
    const auto about = root->find("nvbandwidth");
    if (!about || about->kind() != JsonKind::object) {
      findings_.add(root->begin_offset(), "nvbandwidth", "the file is not what nvbandwidth -j writes",
                    "give its output as it is");
      findings_.raise_if_any();
    }
    const auto list = about->find("testcases"), error = about->find("error");
    if (!list || list->kind() != JsonKind::array || error) {
      findings_.add(about->begin_offset(), "nvbandwidth",
                    error ? fmt::format("nvbandwidth failed: {}", error->text().substr(0, error->text().find('\n')))
                          : "the file has no \"testcases\"",
                    "run it again on a machine whose GPUs work");
      findings_.raise_if_any();
    }
    Tests tests{*list, findings_};
    read_host(tests);
    add_devices(*about);
    read_peers(tests);
    findings_.raise_if_any();
    add_host();
    add_peers();
    try {
      make_cluster(report_.cluster);
    } catch (const InputError& refused) {
      fail(refused.findings().front().message);
    }
    return std::move(report_);
  }

 private:
  std::size_t count() const { return report_.to_host.size(); }
  static std::string gpu(std::size_t i) { return fmt::format("gpu{}", i); }

  void read_host(Tests& tests) {
    const std::vector<Cell> down = tests.required_row("host_to_device_memcpy_ce"),
                            up = tests.required_row("device_to_host_memcpy_ce");
    findings_.raise_if_any();
    if (up.size() != down.size() || up.size() > kMostGpus)
      fail(fmt::format("'host_to_device_memcpy_ce' and its reverse are of {} and {} GPUs", down.size(), up.size()));
    for (std::size_t i = 0; i < up.size(); ++i) {
      if (!up[i] || !down[i]) fail(fmt::format("GPU {} has no bandwidth to or from the host", i));
      report_.to_host.push_back(BytesPerSecond{*up[i] * kGiga});
      report_.from_host.push_back(BytesPerSecond{*down[i] * kGiga});
    }
    at_once_[0] = row_of(tests, "all_to_host_memcpy_ce");
    at_once_[1] = row_of(tests, "host_to_all_memcpy_ce");
  }

  /// One value for each GPU, or none at all.
  std::vector<double> row_of(Tests& tests, const char* name) {
    const auto matrix = tests.matrix(name);
    std::vector<double> row;
    if (matrix && !matrix->empty())
      for (const Cell& cell : matrix->front())
        if (cell) row.push_back(*cell * kGiga);
    if (row.size() != count()) row.clear();
    return row;
  }

  void add_devices(const JsonValue& about) {
    const auto names = about.find("GPU Device list");
    const DeviceKind* given = kind_.empty() ? nullptr : find_device_kind(kind_);
    if (!kind_.empty() && !given) {
      std::vector<std::string> known;
      for (const DeviceKind& each : device_kinds()) known.push_back(each.name);
      throw InputError({.code = "unknown-kind",
                        .message = fmt::format("no device kind is named '{}'", kind_),
                        .help = did_you_mean(kind_, known)});
    }
    std::vector<std::string> called;
    if (names && names->kind() == JsonKind::array)
      for (const JsonValue each : names->children()) called.emplace_back(gpu_name(each.text()));
    for (std::size_t i = 0; i < count(); ++i) {
      const DeviceKind* kind = given ? given : i < called.size() ? find_gpu_product(called[i]) : nullptr;
      if (kind) {
        report_.cluster.devices.push_back(make_device(*kind, gpu(i)));
      } else {
        Device device;
        device.name = gpu(i);
        device.device_class = "gpu";
        report_.cluster.devices.push_back(std::move(device));
      }
    }
    if (std::ranges::any_of(report_.cluster.devices, [](const Device& device) { return device.kind.empty(); }))
      report_.notes.push_back(
          (called.empty() ? std::string{"the file does not name its GPUs"}
                          : fmt::format("no kind here is '{}'", called.front())) +
          ": --kind names one (`trainyard clusters` lists them), or memory, peak and memory_bandwidth in the "
          "cluster file");
  }

  void read_peers(Tests& tests) {
    const auto write = tests.matrix("device_to_device_memcpy_write_ce");
    if (count() < 2 || !write) return;
    if (write->size() != count() || std::ranges::any_of(*write, [&](const auto& row) { return row.size() != count(); }))
      fail(fmt::format("'device_to_device_memcpy_write_ce' is no matrix of {0} x {0} GPUs", count()));
    pairs_ = *write;
    std::vector<double> cells;
    for (const auto& row : pairs_)
      for (const Cell& cell : row)
        if (cell) cells.push_back(*cell);
    if (cells.empty()) return;
    const bool nvlink2 = std::ranges::all_of(cells, [](double cell) {
      const double links = std::round(cell / kNvLink2);
      return (links == 1 || links == 2) && std::abs(links * kNvLink2 / cell - 1) < 0.015;
    });
    if (*std::ranges::max_element(cells) <= kMostOfPcie && !nvlink2) {
      report_.peers = BandwidthReport::Peers::pcie;
      return;
    }
    report_.peers = BandwidthReport::Peers::links;
    // Copies to all others at once: of links of one's own their sum, of a port the port.
    const std::vector<double> all = row_of(tests, "one_to_all_write_ce");
    if (count() > 2 && cells.size() == count() * (count() - 1) && !all.empty() &&
        median_of(all) / kGiga < 1.25 * median_of(cells))
      report_.peers = BandwidthReport::Peers::ports;
  }

  /// A link to the host for each GPU, with buses.
  void add_host() {
    find_buses();
    report_.cluster.switches.emplace_back("host");
    for (std::size_t i = 0; i < count(); ++i) {
      Link link;
      link.name = gpu(i) + "-host";
      link.from = gpu(i);
      link.to = "host";
      link.bandwidth = std::min(report_.to_host[i], report_.from_host[i]);
      link.latency = kPciePort;
      for (const auto& bus : report_.buses)
        if (std::ranges::find(bus, i) != bus.end()) link.bus = fmt::format("pcie-{}", gpu(bus.front()));
      report_.cluster.links.push_back(std::move(link));
    }
  }

  /// How many share what copying at once leaves of GPU i's own bandwidth.
  double sharing(std::size_t direction, std::size_t i) const {
    const auto& alone = direction == 0 ? report_.to_host : report_.from_host;
    return alone[i].value / at_once_[direction][i];
  }

  void find_buses() {
    const std::size_t direction = at_once_[0].empty() ? 1 : 0;
    if (count() < 2 || at_once_[direction].empty()) return;
    for (std::size_t i = 0; i < count();) {
      const double k = sharing(direction, i);
      const auto g = static_cast<std::size_t>(std::lround(std::clamp(k, 1.0, static_cast<double>(kMostGpus))));
      bool alike = g >= 2 && std::abs(k - static_cast<double>(g)) < 0.25 && i + g <= count();
      for (std::size_t j = i; alike && j < i + g; ++j) alike = std::abs(sharing(direction, j) / k - 1) < 0.15;
      if (!alike) {
        ++i;
        continue;
      }
      std::vector<std::size_t>& bus = report_.buses.emplace_back();
      for (std::size_t j = 0; j < g; ++j) bus.push_back(i + j);
      i += g;
    }
    std::vector<double> shared(count(), 1);
    for (const auto& bus : report_.buses)
      for (const std::size_t i : bus) shared[i] = static_cast<double>(bus.size());
    for (const std::size_t d : {std::size_t{0}, std::size_t{1}})
      if (!at_once_[d].empty())
        for (std::size_t i = 0; i < count(); ++i)
          report_.concurrent_error = std::max(report_.concurrent_error, std::abs(sharing(d, i) / shared[i] - 1));
    if (report_.concurrent_error > 0.15)
      report_.notes.push_back(
          fmt::format("when all GPUs copy to or from the host at once, one is {:.0f} % off what the cluster has",
                      100 * report_.concurrent_error));
  }

  void add_peers() {
    using Peers = BandwidthReport::Peers;
    if (count() < 2) return;
    if (report_.peers == Peers::ports) {
      std::vector<double> cells;
      for (const auto& row : pairs_)
        for (const Cell& cell : row)
          if (cell) cells.push_back(*cell);
      report_.cluster.switches.emplace_back("nvswitch");
      for (std::size_t i = 0; i < count(); ++i) add_link(gpu(i), "nvswitch", median_of(cells), kNvSwitchPort);
    }
    std::size_t derived = 0;
    for (std::size_t from = 0; from < count(); ++from)
      for (std::size_t to = 0; to < count(); ++to) {
        if (from == to) continue;
        const Cell there = pairs_.empty() ? Cell{} : pairs_[to][from];
        const Cell back = pairs_.empty() ? Cell{} : pairs_[from][to];
        const bool own = there && report_.peers == Peers::links;
        if (own && (from < to || !back))
          add_link(gpu(from), gpu(to), back ? std::max(*there, *back) : *there, kNvLinkCopy);
        if (!there) ++derived;
        // A copy up and then one down take the sum of their times.
        const double through_host = 1 / (1 / report_.to_host[from].value + 1 / report_.from_host[to].value);
        report_.cluster.measured.push_back({.from = gpu(from),
                                            .to = gpu(to),
                                            .latency = own                                      ? kNvLinkCopy
                                                       : there && report_.peers == Peers::ports ? 2 * kNvSwitchPort
                                                                                                : 2 * kPciePort,
                                            .bandwidth = BytesPerSecond{there ? *there * kGiga : through_host}});
      }
    if (derived > 0)
      report_.notes.push_back(fmt::format(
          "{} of {} pairs have no peer access: derived from a copy to the host and one from it, one after the other",
          derived, count() * (count() - 1)));
    report_.notes.emplace_back("latencies of copies are estimates: the file has those of dependent loads");
  }

  void add_link(const std::string& from, const std::string& to, double gigabytes, Nanoseconds latency) {
    Link link;
    link.name = from + "-" + to;
    link.from = from;
    link.to = to;
    link.bandwidth = BytesPerSecond{gigabytes * kGiga};
    link.latency = latency;
    report_.cluster.links.push_back(std::move(link));
  }

  [[noreturn]] void fail(std::string message) {
    findings_.replace(0, "nvbandwidth", std::move(message), "run nvbandwidth -j again, with all tests");
    findings_.raise_if_any();
    throw std::logic_error("a finding was added");
  }

  FindingList findings_;
  std::string_view text_;
  std::string kind_;
  BandwidthReport report_;
  std::vector<double> at_once_[2];  // to the host, from the host: bytes a second of each GPU while all copy
  Matrix pairs_;                    // of the row's GPU, as the column's writes to it
};

}  // namespace

bool is_nvbandwidth(std::string_view text) {
  const std::size_t brace = text.find_first_not_of(" \t\r\n");
  if (brace == std::string_view::npos || text[brace] != '{') return false;
  const std::size_t key = text.find_first_not_of(" \t\r\n", brace + 1);
  return key != std::string_view::npos && text.substr(key).starts_with("\"nvbandwidth\"");
}

BandwidthReport parse_nvbandwidth(std::string_view text, const std::string& name, const std::string& kind) {
  return Reader{text, name, kind}.read();
}

}  // namespace trainyard
