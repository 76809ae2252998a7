#include "trainyard/io/foreign/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/cost/nccl_model.hpp"
#include "trainyard/io/foreign/log_lines.hpp"
#include "trainyard/io/json/findings.hpp"

namespace trainyard {
namespace {

using detail::LogLine;
using detail::number_of;

struct Program {
  std::string_view name;
  CollectiveKind kind;
};
constexpr Program kNcclPrograms[]{{"all_reduce_perf", CollectiveKind::all_reduce},
                                  {"all_gather_perf", CollectiveKind::all_gather},
                                  {"reduce_scatter_perf", CollectiveKind::reduce_scatter},
                                  {"alltoall_perf", CollectiveKind::all_to_all},
                                  {"broadcast_perf", CollectiveKind::broadcast}};
constexpr std::string_view kOtherNcclPrograms[]{"reduce_perf", "sendrecv_perf", "gather_perf", "scatter_perf",
                                                "hypercube_perf"};
/// Tolerances. Bandwidths are printed with two decimals; times and large bandwidths have about five digits.
constexpr double kDigit = 0.006, kNcclTolerance = 0.03;
constexpr double kLongestTestMicroseconds = 4e9;

/// Indices of a line's columns, from the header. The first three are size, count and type.
struct Columns {
  std::size_t redop = 0, time = 0, bandwidth = 0, bus = 0, wrong = 0;  // 0 if absent
  std::size_t count = 0;
};

struct Row {
  std::int64_t bytes;
  double microseconds, bandwidth, bus;
  std::string_view line;
};

bool is_header(const LogLine& line) {
  const auto has = [&](std::string_view word) { return std::ranges::find(line.words, word) != line.words.end(); };
  return has("size") && has("count") && has("type") && has("time") && has("algbw") && has("busbw");
}

/// Index of the first word after a leading "#". Logs copied from a web page may have lost the "#".
std::size_t first_word(const LogLine& line) { return line.words.front() == "#" ? 1 : 0; }

class NcclTestsReader {
 public:
  NcclTestsReader(std::string_view text, const std::string& name)
      : text_(text), findings_(name, text), lines_(detail::log_lines(text)) {}

  NcclTestsLog read(std::optional<CollectiveKind> kind) {
    for (const LogLine& line : lines_) read_line(line);
    check_parts();
    findings_.raise_if_any();
    log_.table.kind = collective(kind);
    check_bandwidths();
    findings_.raise_if_any();
    std::map<std::int64_t, std::vector<double>> times;
    for (const Row& row : rows_) times[row.bytes].push_back(row.microseconds);
    for (const auto& [bytes, each] : times)
      log_.table.points.push_back({Bytes{bytes}, nanoseconds_from_seconds(median_of(each) * 1e-6)});
    log_.table.source = fmt::format("nccl-tests, out of place, {}", log_.gpu.empty() ? "GPUs not named" : log_.gpu);
    return std::move(log_);
  }

 private:
  std::size_t offset(std::string_view part) const { return static_cast<std::size_t>(part.data() - text_.data()); }
  void refuse(std::string_view part, std::string code, std::string message, std::string help = "") {
    findings_.add(offset(part), std::move(code), std::move(message), std::move(help));
  }

  void read_line(const LogLine& line) {
    for (const Program& program : kNcclPrograms)
      if (line.text.find(program.name) != std::string_view::npos) program_ = &program;
    for (const std::string_view other : kOtherNcclPrograms)
      if (line.words.back() == other && !program_) other_ = other;
    const std::size_t first = first_word(line);
    const auto word = [&](std::size_t i) { return first + i < line.words.size() ? line.words[first + i] : ""; };
    if (is_header(line)) {
      read_header(line);
    } else if (word(0) == "Rank") {
      read_rank(line, first);
    } else if ((word(0) == "Out" && word(1) == "of" && word(2) == "bounds") || (word(0) == "Avg" && word(1) == "bus")) {
      ended_ = true;
    } else if (number_of<std::int64_t>(line.words.front()) && columns_.count > 0 && !ended_) {
      read_row(line);
    }
  }

  void read_header(const LogLine& line) {
    const std::size_t first = first_word(line);
    columns_ = {};
    for (std::size_t i = first; i < line.words.size(); ++i) {
      const std::string_view word = line.words[i];
      const auto first_of = [&](std::size_t& column) { column = column == 0 ? i - first : column; };
      if (word == "redop") first_of(columns_.redop);
      if (word == "time") first_of(columns_.time);
      if (word == "algbw") first_of(columns_.bandwidth);
      if (word == "busbw") first_of(columns_.bus);
      if (word == "#wrong") first_of(columns_.wrong);
    }
    columns_.count = line.words.size() - first;
  }

  void read_rank(const LogLine& line, std::size_t first) {
    const auto number = first + 1 < line.words.size() ? number_of<std::int64_t>(line.words[first + 1]) : std::nullopt;
    const auto on = std::ranges::find(line.words, "on");
    if (!number || on == line.words.end() || on + 1 == line.words.end())
      return refuse(line.words.front(), "nccl-tests", "a rank's line needs a number, and \"on\" with a host");
    if (!ranks_.insert(*number).second)
      refuse(line.words.front(), "nccl-tests", fmt::format("rank {} is listed twice", *number),
             "give the log of one run, of nccl-tests built with MPI=1");
    hosts_.insert(*(on + 1));
    const std::size_t name = line.text.find("] ");
    if (*number == 0 && name != std::string_view::npos) {
      const std::string_view gpu = line.text.substr(name + 2);
      log_.gpu = printable(gpu.substr(0, gpu.find_last_not_of(" \r") + 1));
    }
  }

  void read_row(const LogLine& line) {
    const auto& words = line.words;
    if (words.size() != columns_.count)
      return refuse(words.front(), "nccl-tests",
                    fmt::format("columns in this row: {}, in the header: {}", words.size(), columns_.count),
                    "give the log as the test printed it, to its end");
    const auto bytes = number_of<std::int64_t>(words[0]);
    const auto value = [&](std::size_t column) {
      const auto number = number_of<double>(words[column]);
      if (!number) refuse(words[column], "number", fmt::format("'{}' is not a number above 0", words[column]));
      return number.value_or(0);
    };
    const Row row{bytes.value_or(0), value(columns_.time), value(columns_.bandwidth), value(columns_.bus), words[0]};
    if (row.microseconds > kLongestTestMicroseconds)
      return refuse(words[columns_.time], "number", "this time is over an hour");
    if (columns_.wrong > 0 && words[columns_.wrong] != "0" && words[columns_.wrong] != "N/A")
      return refuse(words[columns_.wrong], "wrong-results",
                    fmt::format("the test found {} wrong values", words[columns_.wrong]),
                    "do not use its times: check the machine and its driver");
    if (number_of<double>(words[columns_.time]) == 0.0 && row.bandwidth > 0)
      return refuse(words[columns_.time], "bandwidth",
                    fmt::format("{} bytes in a time of 0 cannot be {} GB/s", row.bytes, row.bandwidth));
    if (columns_.redop > 0) operation_ = words[columns_.redop];
    if (row.bytes > 0 && row.microseconds > 0) rows_.push_back(row);
  }

  void check_parts() {
    const std::size_t end = lines_.empty() ? 0 : offset(lines_.back().text);
    const auto missing = [&](std::string message) {
      findings_.add(end, "nccl-tests", std::move(message), "give the log as the test printed it, to its end");
    };
    if (columns_.count == 0) return missing("the log has no header: size, count, type, time, algbw, busbw");
    if (ranks_.size() < 2)
      missing(fmt::format("the log has {} lines \"# Rank\", but a collective needs at least two", ranks_.size()));
    if (!ranks_.empty() && *ranks_.rbegin() + 1 != static_cast<std::int64_t>(ranks_.size()))
      missing(fmt::format("the log has {} ranks, but one of them is rank {}", ranks_.size(), *ranks_.rbegin()));
    if (!ended_) missing("the log is cut short: no line \"# Avg bus bandwidth\"");
    if (rows_.empty()) missing("no size in the log has a time");
    log_.table.ranks = ranks_.size(), log_.table.nodes = std::max<std::size_t>(1, hosts_.size());
    if (findings_.empty() && log_.table.ranks % log_.table.nodes != 0)
      missing(fmt::format("{} ranks cannot be divided evenly among {} nodes", log_.table.ranks, log_.table.nodes));
  }

  /// Bus bandwidth over bandwidth of the row with the highest bandwidth.
  double bus_ratio() const {
    const Row& fastest = *std::ranges::max_element(rows_, {}, &Row::bandwidth);
    return fastest.bandwidth > 0 ? fastest.bus / fastest.bandwidth : 0;
  }

  CollectiveKind collective(std::optional<CollectiveKind> given) {
    std::optional<CollectiveKind> found;
    const std::size_t at = lines_.empty() ? 0 : offset(lines_.front().text);
    if (program_) {
      found = program_->kind;
    } else if (other_) {
      findings_.add(
          at, "collective", fmt::format("{} does not measure a known collective", *other_),
          "give a log of all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf or broadcast_perf");
    } else if (operation_ != "none" && !operation_.empty()) {
      const double full = bus_factor(CollectiveKind::all_reduce, log_.table.ranks);
      found = bus_ratio() > 0.75 * full ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter;
    } else if (!given) {
      findings_.add(at, "collective", "the log does not say which collective it measures",
                    "give --collective all-gather or --collective all-to-all");
    }
    if (found && given && *found != *given)
      findings_.add(at, "collective", fmt::format("the log measures {}, not {}", name_of(*found), name_of(*given)));
    findings_.raise_if_any();
    return found ? *found : *given;
  }

  void check_bandwidths() {
    const double factor = bus_factor(log_.table.kind, log_.table.ranks);
    for (const Row& row : rows_) {
      if (findings_.full()) return;
      const double expected = static_cast<double>(row.bytes) / row.microseconds * 1e-3;
      if (std::abs(expected - row.bandwidth) > kDigit + kNcclTolerance * expected)
        refuse(row.line, "bandwidth",
               fmt::format("{} bytes in {} us are {:.2f} GB/s, not {}", row.bytes, row.microseconds, expected,
                           row.bandwidth));
      else if (std::abs(factor * row.bandwidth - row.bus) > 2 * kDigit + kNcclTolerance * row.bus)
        refuse(row.line, "bandwidth",
               fmt::format("a bus bandwidth of {} does not fit {} GB/s for {} with {} ranks", row.bus, row.bandwidth,
                           name_of(log_.table.kind), log_.table.ranks));
    }
  }

  std::string_view text_;
  detail::FindingList findings_;
  std::vector<LogLine> lines_;
  NcclTestsLog log_;
  Columns columns_;
  std::vector<Row> rows_;
  std::set<std::int64_t> ranks_;
  std::set<std::string_view> hosts_;
  const Program* program_ = nullptr;
  std::optional<std::string_view> other_;
  std::string_view operation_;
  bool ended_ = false;
};

}  // namespace

bool is_nccl_tests(std::string_view text) {
  const auto lines = detail::log_lines(text);
  return std::ranges::any_of(lines, [](const LogLine& line) {
    const auto at = std::ranges::find(line.words, "nThread");
    return is_header(line) || (at != line.words.end() && std::ranges::find(line.words, "minBytes") != line.words.end());
  });
}

NcclTestsLog parse_nccl_tests(std::string_view text, const std::string& name, std::optional<CollectiveKind> kind) {
  return NcclTestsReader{text, name}.read(kind);
}

}  // namespace trainyard
