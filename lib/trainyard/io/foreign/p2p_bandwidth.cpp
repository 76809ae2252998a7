#include "trainyard/io/foreign/p2p_bandwidth.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/io/foreign/log_lines.hpp"
#include "trainyard/io/json/findings.hpp"

namespace trainyard {
namespace {

using detail::LogLine;

constexpr std::size_t kMostP2pGpus = 64;

class P2pReader {
 public:
  P2pReader(std::string_view text, const std::string& name)
      : text_(text), findings_(name, text), lines_(detail::log_lines(text)) {}

  MeasuredMachine read() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      read_device(lines_[i]);
      const std::string title = title_of(lines_[i].text);
      if (!title.empty()) read_matrix(title, i);
    }
    MeasuredMachine machine;
    const RateMatrix* alone = required("Unidirectional P2P=Disabled", "unidirectional, P2P=Disabled");
    const RateMatrix* peers = required("Unidirectional P2P=Enabled", "unidirectional, P2P=Enabled");
    findings_.raise_if_any();
    machine.count = alone->size();
    for (const auto& [title, matrix] : matrices_)
      if (matrix.size() != machine.count)
        findings_.add(
            0, "p2p",
            fmt::format("the matrix {} has {} GPUs, but others have {}", title, matrix.size(), machine.count));
    findings_.raise_if_any();
    machine.through_host = off_diagonal(*alone);
    machine.peers = where_connected(*peers);
    if (const RateMatrix* both = find("Bidirectional P2P=Enabled")) machine.peers_both = where_connected(*both);
    machine.latency_us = latencies(machine);
    for (std::size_t i = 0; i < machine.count; ++i)
      if (names_.contains(i)) machine.gpus.push_back(names_.at(i));
    if (machine.gpus.size() != machine.count) machine.gpus.clear();
    return machine;
  }

 private:
  std::size_t offset(std::string_view part) const { return static_cast<std::size_t>(part.data() - text_.data()); }

  /// Extracts "Unidirectional P2P=Enabled" from "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)".
  static std::string title_of(std::string_view line) {
    if (line.find("Matrix") == std::string_view::npos) return "";
    if (line.find("Connectivity") != std::string_view::npos) return "Connectivity";
    std::string title;
    for (const std::string_view word : {"Unidirectional", "Bidirectional"})
      if (line.find(word) != std::string_view::npos) title = word;
    if (title.empty() && line.find("Latency") != std::string_view::npos) title = "Latency";
    for (const std::string_view word : {"P2P=Disabled", "P2P=Enabled"})
      if (!title.empty() && line.find(word) != std::string_view::npos) return title + " " + std::string{word};
    return "";
  }

  /// Reads a line such as "Device: 0, Tesla V100-SXM2-16GB, pciBusID: 1b, ...".
  void read_device(const LogLine& line) {
    if (line.words.front() != "Device:" || line.words.size() < 3 || !line.words[1].ends_with(',')) return;
    const auto number = detail::number_of<std::size_t>(line.words[1].substr(0, line.words[1].size() - 1));
    if (!number) return;
    const std::string_view rest = line.text.substr(static_cast<std::size_t>(line.words[2].data() - line.text.data()));
    names_[*number] = std::string{rest.substr(0, rest.find(','))};
  }

  /// Reads a matrix: a header of column numbers, then one row per number.
  void read_matrix(const std::string& title, std::size_t at) {
    if (at + 1 == lines_.size()) return cut(lines_[at].text, title);
    const LogLine& header = lines_[at + 1];
    const std::string_view corner = header.words.front();
    if (corner != "D\\D" && corner != "GPU") return cut(header.text, title);
    const std::size_t count = header.words.size() - 1;
    if (count == 0 || count > kMostP2pGpus) return cut(header.text, title);
    RateMatrix matrix;
    for (std::size_t row = 0; row < count; ++row) {
      if (at + 2 + row >= lines_.size()) return cut(header.text, title);
      const LogLine& line = lines_[at + 2 + row];
      if (line.words.size() != count + 1 || detail::number_of<std::size_t>(line.words[0]) != row)
        return cut(line.text, title);
      matrix.emplace_back();
      for (std::size_t column = 0; column < count; ++column) {
        const auto value = detail::number_of<double>(line.words[column + 1]);
        if (!value || (title != "Connectivity" && !is_measured_rate(*value)))
          findings_.add(offset(line.words[column + 1]), "cell",
                        fmt::format("'{}' is neither a bandwidth in GB/s nor a latency in us", line.words[column + 1]),
                        "give a number from 0.1 to 100000");
        matrix.back().push_back(value);
      }
    }
    matrices_.emplace(title, std::move(matrix));
  }

  void cut(std::string_view line, const std::string& title) {
    findings_.add(offset(line), "p2p", fmt::format("the matrix {} is cut short or malformed", title),
                  "give the output of p2pBandwidthLatencyTest as it is");
  }

  const RateMatrix* find(const std::string& title) const {
    const auto at = matrices_.find(title);
    return at == matrices_.end() ? nullptr : &at->second;
  }
  const RateMatrix* required(const std::string& title, const char* words) {
    const RateMatrix* matrix = find(title);
    if (!matrix && findings_.empty())
      findings_.add(text_.empty() ? 0 : text_.size() - 1, "p2p",
                    fmt::format("the matrix of copies {} is missing", words),
                    "run p2pBandwidthLatencyTest without options that leave tests out");
    return matrix;
  }

  static RateMatrix off_diagonal(RateMatrix matrix) {
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i][i].reset();
    return matrix;
  }
  /// Removes the pairs without peer access: for them the sample copies through the host.
  RateMatrix where_connected(RateMatrix matrix) const {
    const RateMatrix* connected = find("Connectivity");
    for (std::size_t i = 0; i < matrix.size(); ++i)
      for (std::size_t j = 0; j < matrix.size(); ++j)
        if (i == j || (connected && (*connected)[i][j] == 0.0)) matrix[i][j].reset();
    return matrix;
  }
  RateMatrix latencies(const MeasuredMachine& machine) const {
    const RateMatrix *with = find("Latency P2P=Enabled"), *without = find("Latency P2P=Disabled");
    if (!with || !without) return {};
    RateMatrix latencies = off_diagonal(*without);
    for (std::size_t i = 0; i < machine.count; ++i)
      for (std::size_t j = 0; j < machine.count; ++j)
        if (machine.peers[i][j]) latencies[i][j] = (*with)[i][j];
    return latencies;
  }

  std::string_view text_;
  detail::FindingList findings_;
  std::vector<LogLine> lines_;
  std::map<std::string, RateMatrix> matrices_;
  std::map<std::size_t, std::string> names_;
};

}  // namespace

bool is_p2p_bandwidth(std::string_view text) {
  return text.find("P2P (Peer-to-Peer) GPU Bandwidth Latency Test") != std::string_view::npos ||
         text.find("P2P Connectivity Matrix") != std::string_view::npos;
}

BandwidthReport parse_p2p_bandwidth(std::string_view text, const std::string& name, const std::string& kind,
                                    const GpuTopology* topology) {
  const MeasuredMachine machine = P2pReader{text, name}.read();
  BandwidthReport report = machine_cluster(machine, kind, topology);
  report.notes.emplace_back(
      "p2pBandwidthLatencyTest has no copies to the host: links to the host, if any, are estimated from copies between "
      "GPUs");
  return report;
}

}  // namespace trainyard
