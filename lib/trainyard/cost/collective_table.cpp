#include "trainyard/cost/collective_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "trainyard/core/error.hpp"
#include "trainyard/cost/nccl_model.hpp"

namespace trainyard {
namespace {

void check_points(const CollectiveTable& table) {
  if (table.points.empty() || table.ranks < 2 || table.nodes == 0)
    refuse("collective", "a table of a collective has no points, no nodes or fewer than two ranks",
           "give the measured points, nodes and ranks");
  const auto falls = std::ranges::adjacent_find(table.points, std::ranges::greater_equal{}, &CollectivePoint::bytes);
  if (falls != table.points.end())
    refuse("collective",
           fmt::format("a table of a collective lists {} B before {} B", falls->bytes.count, (falls + 1)->bytes.count),
           "list its points by ascending size, each size once");
}

double seconds_of_latency(const CollectiveTable& table) {
  return nccl_latency(table.kind, table.ranks, table.nodes, NcclMachine{});
}

/// A line of a table: seconds at one size, and the slope in seconds per byte.
struct Line {
  double bytes, seconds, slope;

  double at(double size) const { return seconds + (size - bytes) * slope; }
};

Line line_at(const CollectiveTable& table, double size) {
  const auto& points = table.points;
  const auto bytes = [&](std::size_t i) { return static_cast<double>(points[i].bytes.count); };
  if (points.size() == 1) {
    const double above = std::max(0.0, seconds(points[0].time) - seconds_of_latency(table));
    return {bytes(0), seconds(points[0].time), bytes(0) > 0 ? above / bytes(0) : 0};
  }
  std::size_t i = 1;
  while (i + 1 < points.size() && size > bytes(i)) ++i;
  const double slope = (seconds(points[i].time) - seconds(points[i - 1].time)) / (bytes(i) - bytes(i - 1));
  // Beyond the last size, the line starts at the last point; else at the smaller one.
  if (size > bytes(i)) return {bytes(i), seconds(points[i].time), std::max(0.0, slope)};
  if (slope < 0) return {bytes(i - 1), seconds(points[i].time), 0};
  return {bytes(i - 1), seconds(points[i - 1].time), slope};
}

double seconds_at(const CollectiveTable& table, Bytes bytes) {
  const auto size = static_cast<double>(bytes.count);
  const double time = line_at(table, size).at(size);
  const CollectivePoint& first = table.points.front();
  if (bytes >= first.bytes) return time;
  return std::max(time, std::min(seconds_of_latency(table), seconds(first.time)));
}

}  // namespace

Nanoseconds collective_time(const CollectiveTable& table, Bytes bytes) {
  check_points(table);
  return nanoseconds_from_seconds(seconds_at(table, bytes));
}

Nanoseconds collective_time(const CollectiveTable& table, CollectiveKind kind, std::size_t ranks, std::size_t nodes,
                            Bytes bytes) {
  check_points(table);
  if (ranks < 2) return Nanoseconds{0};
  if (nodes == 0) refuse("collective", "the ranks of a collective are on 0 nodes", "give 1 or more");
  const double own = seconds_of_latency(table), other = nccl_latency(kind, ranks, nodes, NcclMachine{});
  const double latency = std::max(own, line_at(table, 0).at(0));
  const double rest = std::max(0.0, seconds_at(table, bytes) - latency);
  return nanoseconds_from_seconds(latency * other / own +
                                  rest * bus_factor(kind, ranks) / bus_factor(table.kind, table.ranks));
}

std::optional<CollectiveTime> measured_collective(const std::vector<CollectiveTable>& tables, CollectiveKind kind,
                                                  std::size_t ranks, std::size_t nodes, Bytes bytes) {
  if (ranks < 2 || bytes.count == 0) return CollectiveTime{Nanoseconds{0}, Evidence::given};
  const CollectiveTable* best = nullptr;
  const auto distance = [&](const CollectiveTable& table) {
    const double ratio = std::log(static_cast<double>(table.ranks) / static_cast<double>(ranks));
    return std::pair{table.kind != kind, std::abs(ratio) + (table.nodes == nodes ? 0 : 1e-9)};
  };
  for (const CollectiveTable& table : tables) {
    if ((table.nodes > 1) != (nodes > 1)) continue;
    if (table.kind != kind && table.kind != CollectiveKind::all_reduce) continue;
    if (!best || distance(table) < distance(*best)) best = &table;
  }
  if (!best) return std::nullopt;
  check_points(*best);
  if (best->kind != kind || best->ranks != ranks || best->nodes != nodes)
    return CollectiveTime{collective_time(*best, kind, ranks, nodes, bytes), Evidence::transferred};
  const bool inside = bytes >= best->points.front().bytes && bytes <= best->points.back().bytes;
  return CollectiveTime{collective_time(*best, bytes), inside ? Evidence::interpolated : Evidence::transferred};
}

}  // namespace trainyard
