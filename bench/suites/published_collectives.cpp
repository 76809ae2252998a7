#include "published_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "tar_members.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/input_text.hpp"

namespace trainyard::bench {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kNotRun = 1e9;                      // Aceso's mark, in ms, for sizes that did not fit in memory
using Times = std::map<std::int64_t, std::int64_t>;  // nanoseconds by bytes

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw InputError({.code = "published", .message = fmt::format("{}: {}", path.string(), why), .help = ""});
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in{line};
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  return fields;
}

std::optional<double> number(const std::string& text) {
  try {
    std::size_t end = 0;
    const double value = std::stod(text, &end);
    return std::isfinite(value) && value > 0 ? std::optional{value} : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Times by size from comma-separated text: column 0 in units of `byte_unit` bytes, `time_column` in units of
/// `time_unit` nanoseconds. Lines without both numbers, or with a time of kNotRun or more, are skipped.
Times rows_of(const std::string& text, std::size_t time_column, double byte_unit, double time_unit) {
  Times times;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) {
    const auto fields = fields_of(line);
    const auto bytes = fields.empty() ? std::nullopt : number(fields[0]);
    const auto time = fields.size() > time_column ? number(fields[time_column]) : std::nullopt;
    if (bytes && time && *time < kNotRun) times[std::llround(*bytes * byte_unit)] = std::llround(*time * time_unit);
  }
  return times;
}

void add(std::vector<PublishedTable>& tables, const std::string& set, CollectiveKind kind, std::size_t ranks,
         std::size_t nodes, const Times& times) {
  CollectiveTable table{kind, ranks, nodes, {}, set};
  for (const auto& [bytes, time] : times)
    if (static_cast<double>(bytes) >= kMebibyte) table.points.push_back({Bytes{bytes}, Nanoseconds{time}});
  if (table.points.size() > 2) tables.push_back({set, std::move(table)});
}

void add_vtrain(std::vector<PublishedTable>& tables, const std::filesystem::path& folder) {
  for (const char* gpu : {"a100", "v100"})
    for (std::size_t n = 2; n <= 8; ++n) {
      const auto path = folder / fmt::format("{}_AR_GPU{}_1M_1024M_LUT.gz", gpu, n);
      if (!std::filesystem::exists(path)) continue;
      const Times times = rows_of(read_input(path), 3, 1, 1);
      if (times.size() < 1000) refuse(path, "not the 1,024 sizes of vTrain's table");
      add(tables, std::string{"vTrain "} + (*gpu == 'a' ? "A100" : "V100"), CollectiveKind::all_reduce, n, 1, times);
    }
}

void add_aceso(std::vector<PublishedTable>& tables, const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  const auto members = tar_members(path, "-eurosys/prim_gpt_");
  for (const char* word : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
    for (const std::size_t n : {2u, 4u, 8u}) {
      Times times;
      for (const auto& [name, text] : members)
        if (name.ends_with(fmt::format("{}_{}gpus.csv", word, n))) times.merge(rows_of(text, 1, kMebibyte, 1e6));
      if (times.empty()) refuse(path, fmt::format("no {} of {} GPUs", word, n));
      std::string kind = word;
      std::ranges::replace(kind, '_', '-');
      add(tables, "Aceso V100", *find_collective_kind(kind), n, 1, times);
    }
}

void add_galvatron(std::vector<PublishedTable>& tables, const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  const auto all = nlohmann::json::parse(read_input(path));
  for (const auto& [word, kind] :
       {std::pair{"allreduce", CollectiveKind::all_reduce}, std::pair{"all2all", CollectiveKind::all_to_all}})
    for (const std::size_t n : {2u, 4u, 8u}) {
      Times times;
      for (int size = 1; size <= 1024; size *= 2)
        if (const auto key = fmt::format("{}_size_{}_{}MB_time", word, n, size); all.contains(key))
          times[std::int64_t{size} << 20] = std::llround(all[key].get<double>() * 1e6);
      add(tables, "Galvatron A100", kind, n, 1, times);
    }
}

void add_points(std::vector<PublishedTable>& tables, const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  std::map<std::string, Times> sets;
  std::map<std::string, std::pair<std::size_t, std::size_t>> sizes;
  const auto all = nlohmann::json::parse(read_input(path));
  for (const auto& row : all.at("data")) {
    const std::string set = row.at("set");
    if (set.starts_with("vtrain") || !row.contains("bytes") || !row.contains("time_us")) continue;
    if (row.at("op") != "all-reduce") continue;
    sets[set][row.at("bytes")] = std::llround(row.at("time_us").get<double>() * 1e3);
    sizes[set] = {row.at("gpus"), row.at("nodes")};
  }
  for (const auto& [set, times] : sets)
    add(tables, set, CollectiveKind::all_reduce, sizes[set].first, sizes[set].second, times);
}

}  // namespace

std::vector<PublishedTable> published_collectives(const std::filesystem::path& data) {
  std::vector<PublishedTable> tables;
  add_vtrain(tables, data / "formats/vtrain");
  add_aceso(tables, data / "formats/aceso/profiled.tar.gz");
  add_galvatron(tables, data / "formats/galvatron/sp_time_1nodes_8gpus_per_node.json");
  add_points(tables, data / "published/collectives.json");
  return tables;
}

CollectiveTable fitted_at(const CollectiveTable& table, const std::vector<double>& multiples) {
  CollectiveTable fitted = table;
  fitted.points.clear();
  const auto least = static_cast<double>(table.points.front().bytes.count);
  for (const double multiple : multiples) {
    const auto off = [&](const CollectivePoint& point) {
      return std::abs(std::log(static_cast<double>(point.bytes.count) / (multiple * least)));
    };
    const CollectivePoint& nearest = *std::ranges::min_element(table.points, {}, off);
    if (std::ranges::find(fitted.points, nearest) == fitted.points.end()) fitted.points.push_back(nearest);
  }
  std::ranges::sort(fitted.points, {}, &CollectivePoint::bytes);
  return fitted;
}

std::vector<double> errors_of(const CollectiveTable& fitted, const CollectiveTable& table) {
  std::vector<double> errors;
  for (const CollectivePoint& point : table.points)
    if (std::ranges::find(fitted.points, point) == fitted.points.end())
      errors.push_back(std::abs(seconds(collective_time(fitted, point.bytes)) / seconds(point.time) - 1));
  return errors;
}

}  // namespace trainyard::bench
