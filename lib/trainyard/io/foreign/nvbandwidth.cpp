#include "trainyard/io/foreign/nvbandwidth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_value.hpp"

namespace trainyard {
namespace {

using namespace detail;

/// A bandwidth in GB/s; nothing if the file has "N/A".
using Cell = std::optional<double>;
/// Most GPUs accepted, far more than one machine has.
constexpr std::size_t kMostGpus = 64;

/// The test cases of a file, by name.
class Tests {
 public:
  Tests(const JsonValue& list, FindingList& findings) : list_(list), findings_(findings) {}

  /// The matrix of a test; nothing if the test is missing or did not pass.
  std::optional<RateMatrix> matrix(std::string_view name) {
    for (const JsonValue test : list_.children()) {
      if (test.kind() != JsonKind::object) continue;
      const auto title = test.find("name"), status = test.find("status"), rows = test.find("bandwidth_matrix");
      if (!title || title->text() != name) continue;
      if (!status || status->text() != "Passed" || !rows || rows->kind() != JsonKind::array) return std::nullopt;
      RateMatrix matrix;
      for (const JsonValue row : rows->children()) {
        if (!expect(row, JsonKind::array, findings_)) return std::nullopt;
        matrix.emplace_back();
        for (const JsonValue cell : row.children()) matrix.back().push_back(read_cell(cell));
      }
      return matrix;
    }
    return std::nullopt;
  }
  /// The values of a required test with a single row.
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
    if (result.ec == std::errc{} && result.ptr == text.data() + text.size() && is_measured_rate(value)) return value;
    findings_.add(cell.begin_offset(), "cell", fmt::format("'{}' is not a bandwidth in GB/s", text),
                  "give a number from 0.1 to 100000, or N/A");
    return std::nullopt;
  }

  JsonValue list_;
  FindingList& findings_;
};

/// Extracts "Tesla V100-SXM2-16GB" from "0: Tesla V100-SXM2-16GB (00000000:00:17.0)".
std::string_view gpu_name(std::string_view gpu) {
  gpu.remove_prefix(std::min(gpu.size(), gpu.find(": ") == std::string_view::npos ? 0 : gpu.find(": ") + 2));
  return gpu.substr(0, gpu.find(" ("));
}

/// Extracts "0000:00:17" from "0: Tesla V100-SXM2-16GB (00000000:00:17): (host)". Some versions omit the device number,
/// and all omit the function.
std::string gpu_address(std::string_view gpu) {
  const std::size_t open = gpu.find(" (");
  if (open == std::string_view::npos) return "";
  gpu.remove_prefix(open + 2);
  std::string address = lower_case(gpu.substr(0, gpu.find(')')));
  return address.starts_with("0000") && address.find(':') == 8 ? address.substr(4) : "";
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : findings_(name, text), text_(text) {}

  MeasuredMachine read() {
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
    read_gpus(*about);
    read_peers(tests);
    findings_.raise_if_any();
    return std::move(machine_);
  }

  [[noreturn]] void fail(std::string message) {
    findings_.replace(0, "nvbandwidth", std::move(message), "run nvbandwidth -j again, with all tests");
    findings_.raise_if_any();
    throw std::logic_error("a finding was added");
  }

 private:
  std::size_t count() const { return machine_.count; }

  void read_host(Tests& tests) {
    const std::vector<Cell> down = tests.required_row("host_to_device_memcpy_ce"),
                            up = tests.required_row("device_to_host_memcpy_ce");
    findings_.raise_if_any();
    if (up.size() != down.size() || up.size() > kMostGpus)
      fail(fmt::format("'host_to_device_memcpy_ce' has {} GPUs, but its reverse has {}", down.size(), up.size()));
    machine_.count = up.size();
    for (std::size_t i = 0; i < up.size(); ++i) {
      if (!up[i] || !down[i]) fail(fmt::format("GPU {} has no bandwidth to or from the host", i));
      machine_.to_host.push_back(*up[i]);
      machine_.from_host.push_back(*down[i]);
    }
    machine_.all_to_host = row_of(tests, "all_to_host_memcpy_ce");
    machine_.host_to_all = row_of(tests, "host_to_all_memcpy_ce");
    machine_.to_host_both = row_of(tests, "device_to_host_bidirectional_memcpy_ce");
    machine_.from_host_both = row_of(tests, "host_to_device_bidirectional_memcpy_ce");
  }

  /// One value for each GPU, or none at all.
  std::vector<double> row_of(Tests& tests, const char* name) {
    const auto matrix = tests.matrix(name);
    std::vector<double> row;
    if (matrix && !matrix->empty())
      for (const Cell& cell : matrix->front())
        if (cell) row.push_back(*cell);
    if (row.size() != count()) row.clear();
    return row;
  }

  void read_gpus(const JsonValue& about) {
    const auto names = about.find("GPU Device list");
    if (!names || names->kind() != JsonKind::array) return;
    for (const JsonValue each : names->children()) {
      machine_.gpus.emplace_back(gpu_name(each.text()));
      if (std::string address = gpu_address(each.text()); !address.empty())
        machine_.addresses.push_back(std::move(address));
    }
  }

  void read_peers(Tests& tests) {
    const auto write = tests.matrix("device_to_device_memcpy_write_ce");
    if (count() < 2 || !write) return;
    if (!is_square(*write, 0, count()))
      fail(fmt::format("'device_to_device_memcpy_write_ce' is not a matrix of {0} x {0} GPUs", count()));
    machine_.peers = turned(*write, 0);
    machine_.one_to_all = row_of(tests, "one_to_all_write_ce");
    // The file stacks three matrices: one direction, the other direction, and their sum.
    const auto both = tests.matrix("device_to_device_bidirectional_memcpy_write_ce");
    if (both && is_square(*both, 2 * count(), 3 * count())) machine_.peers_both = turned(*both, 2 * count());
  }

  bool is_square(const RateMatrix& matrix, std::size_t begin, std::size_t end) const {
    return matrix.size() == end && end - begin == count() &&
           std::ranges::all_of(matrix, [&](const auto& row) { return row.size() == count(); });
  }

  /// Transposes the rows from `begin` on, in which the column's GPU writes to the row's, to bandwidths from row to
  /// column.
  RateMatrix turned(const RateMatrix& matrix, std::size_t begin) const {
    RateMatrix from(count(), std::vector<Cell>(count()));
    for (std::size_t to = 0; to < count(); ++to)
      for (std::size_t i = 0; i < count(); ++i) from[i][to] = i == to ? std::nullopt : matrix[begin + to][i];
    return from;
  }

  FindingList findings_;
  std::string_view text_;
  MeasuredMachine machine_;
};

}  // namespace

bool is_nvbandwidth(std::string_view text) { return first_key(text) == "nvbandwidth"; }

BandwidthReport parse_nvbandwidth(std::string_view text, const std::string& name, const std::string& kind,
                                  const GpuTopology* topology) {
  Reader reader{text, name};
  const MeasuredMachine machine = reader.read();
  try {
    return machine_cluster(machine, kind, topology);
  } catch (const InputError& refused) {
    const Finding& first = refused.findings().front();
    if (first.code == "unknown-kind" || first.code == "topology") throw;
    reader.fail(first.message);
  }
}

}  // namespace trainyard
