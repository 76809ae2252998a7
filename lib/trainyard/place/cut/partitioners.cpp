#include "trainyard/place/cut/partitioners.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "trainyard/core/sort_by.hpp"

namespace trainyard {

namespace {

constexpr double kLeastShare = 1e-4;  // libraries require positive shares

}  // namespace

std::vector<std::int32_t> scaled_weights(const std::vector<std::int64_t>& values) {
  double sum = 0;
  for (const std::int64_t value : values) sum += static_cast<double>(value);
  const double room = std::max(1.0, 0x1p30 - static_cast<double>(values.size()));  // leaves room for the ones below
  const double scale = sum > room ? room / sum : 1;
  std::vector<std::int32_t> scaled;
  for (const std::int64_t value : values)
    scaled.push_back(std::max(1, static_cast<std::int32_t>(std::floor(static_cast<double>(value) * scale))));
  return scaled;
}

namespace {

/// Speed of each device: total least time over total time on the device, of the groups that have a choice.
std::vector<double> device_speeds(const GroupGraph& graph, const Problem& problem) {
  std::vector<double> least(problem.column_count(), 0), own(problem.column_count(), 0);
  std::vector<std::uint8_t> seen(problem.column_count());
  const std::vector<std::int64_t> fastest = free_times(graph, problem);
  for (std::size_t g = 0; g < graph.size(); ++g) {
    const auto able = graph.able[GroupId{g}];
    if (able.size() == 1) continue;
    std::ranges::fill(seen, std::uint8_t{0});
    for (const DeviceId device : able) {
      const std::size_t column = problem.column(device);
      if (seen[column]) continue;
      seen[column] = 1;
      least[column] += static_cast<double>(fastest[g]);
      own[column] += static_cast<double>(graph.time(GroupId{g}, column));
    }
  }
  std::vector<double> speeds;
  for (const DeviceId device : problem.devices()) {
    const std::size_t column = problem.column(device);
    speeds.push_back(own[column] > 0 ? least[column] / own[column] : 1);
  }
  return speeds;
}

}  // namespace

std::vector<std::int64_t> free_times(const GroupGraph& graph, const Problem& problem) {
  std::vector<std::int64_t> times;
  for (std::size_t g = 0; g < graph.size(); ++g) {
    const auto able = graph.able[GroupId{g}];
    std::int64_t least = able.size() == 1 ? 0 : std::numeric_limits<std::int64_t>::max();
    for (const DeviceId device : able) least = std::min(least, graph.time(GroupId{g}, problem.column(device)));
    times.push_back(least);
  }
  return times;
}

std::vector<double> device_shares(const GroupGraph& graph, const Problem& problem) {
  const std::vector<double> speeds = device_speeds(graph, problem);
  std::vector<double> fixed(speeds.size(), 0);
  for (std::size_t g = 0; g < graph.size(); ++g)
    if (const auto able = graph.able[GroupId{g}]; able.size() == 1)
      fixed[able.front().index()] += static_cast<double>(graph.time(GroupId{g}, problem.column(able.front())));
  double work = 0;
  for (const std::int64_t time : free_times(graph, problem)) work += static_cast<double>(time);
  // Devices by ascending fixed work. A device takes part of the free work unless all devices before it would finish
  // before its fixed work does.
  std::vector<std::size_t> order(speeds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  sort_by(order, [&](std::size_t d) { return fixed[d]; });
  double speed = 0, done = 0, end = 0;  // of the devices so far: sums of speed and of speed x fixed; their common end
  for (const std::size_t d : order) {
    if (speed > 0 && fixed[d] >= end) break;
    speed += speeds[d];
    done += speeds[d] * fixed[d];
    end = speed > 0 ? (work + done) / speed : 0;
  }
  std::vector<double> shares;
  for (std::size_t d = 0; d < speeds.size(); ++d)
    shares.push_back(std::max(work > 0 ? speeds[d] * (end - fixed[d]) / work : 0, kLeastShare));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace trainyard
