#include "trainyard/place/parallel/replicas_placer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/groups.hpp"
#include "trainyard/place/layer_devices.hpp"
#include "trainyard/place/plan_order.hpp"
#include "trainyard/transform/data_parallel.hpp"
#include "trainyard/transform/parameter_use.hpp"

namespace trainyard {
namespace {

Schedule placed(const Problem& problem, const GraphSplit& split, const std::vector<DeviceId>& devices) {
  const Problem parallel = problem.with_splits({split});
  // The same graph again, with whose each op is.
  const DataParallelGraph replicas = data_parallel(problem.graph(), {.replicas = split.parts,
                                                                     .collective = split.collective,
                                                                     .per_node = split.per_node,
                                                                     .zero = split.zero,
                                                                     .bucket = split.bucket});
  const auto able = group_devices(parallel);
  Schedule schedule{.placement = Placement(parallel.op_count()), .splits = {split}};
  IdMap<DeviceId, Bytes> held(problem.device_count());
  for (std::size_t g = 0; g < parallel.group_count(); ++g) {
    const GroupId group{g};
    const auto ops = parallel.group_ops(group);
    const std::size_t replica = replicas.replica[ops.front()];
    DeviceId device = devices.front();
    if (replica < devices.size())
      device = devices[replica];
    else
      device = *std::ranges::min_element(devices, {}, [&](DeviceId each) {
        return std::pair{!std::ranges::binary_search(able[group], each), held[each]};
      });
    if (!std::ranges::binary_search(able[group], device)) device = able[group].front();
    for (const OpId op : ops) {
      schedule.placement[op] = device;
      held[device] += parallel.resident_bytes(op);
    }
  }
  return schedule;
}

/// A circle through all devices by steps of at least `least`, by depth-first search.
class CircleSearch {
 public:
  CircleSearch(const std::vector<std::vector<double>>& bandwidth, double least, std::size_t& steps)
      : bandwidth_(bandwidth), least_(least), steps_(steps), used_(bandwidth.size(), false) {}

  bool extend() {
    if (path_.empty()) take(0);
    if (path_.size() == bandwidth_.size()) return bandwidth_[path_.back()][0] >= least_;
    for (std::size_t next = 1; next < bandwidth_.size(); ++next) {
      if (used_[next] || bandwidth_[path_.back()][next] < least_) continue;
      if (steps_ == 0) return false;
      --steps_;
      take(next);
      if (extend()) return true;
      used_[path_.back()] = false;
      path_.pop_back();
    }
    return false;
  }
  const std::vector<std::size_t>& path() const { return path_; }

 private:
  void take(std::size_t device) {
    path_.push_back(device);
    used_[device] = true;
  }

  const std::vector<std::vector<double>>& bandwidth_;
  double least_;
  std::size_t& steps_;
  std::vector<bool> used_;
  std::vector<std::size_t> path_;
};

}  // namespace

std::vector<DeviceId> ring_order(const Problem& problem, const std::vector<DeviceId>& devices) {
  const std::size_t n = devices.size();
  if (n < 4) return devices;
  std::vector<std::vector<double>> bandwidth(n, std::vector<double>(n, 0));
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (i != j) {
        bandwidth[i][j] = problem.cluster().route(devices[i], devices[j]).bandwidth.value;
        values.push_back(bandwidth[i][j]);
      }
  std::ranges::sort(values, std::ranges::greater{});
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::size_t steps = 100'000;
  for (const double least : values) {
    CircleSearch search{bandwidth, least, steps};
    if (!search.extend()) continue;
    std::vector<DeviceId> ring;
    for (const std::size_t device : search.path()) ring.push_back(devices[device]);
    return ring;
  }
  return devices;
}

std::size_t nodes_of(const Problem& problem, const std::vector<DeviceId>& devices) {
  const Cluster& cluster = problem.cluster();
  const std::size_t n = devices.size();
  const auto bandwidth = [&](std::size_t a, std::size_t b) { return cluster.route(devices[a], devices[b]).bandwidth; };
  for (std::size_t row = n / 2; row >= 2; --row) {
    if (n % row != 0) continue;
    BytesPerSecond within{0}, between{0};
    bool first = true;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i - i % row; j < i - i % row + row; ++j) {
        if (i == j) continue;
        within = std::exchange(first, false) ? bandwidth(i, j) : std::min(within, bandwidth(i, j));
      }
    for (std::size_t i = 0; i < n; ++i) between = std::max(between, bandwidth(i, (i + row) % n));
    if (within > between) return row;
  }
  return n;
}

namespace {

/// So many ops that planning and simulating them takes minutes and gigabytes.
void check_size(const Problem& problem, const ReplicasOptions& options, std::size_t replicas) {
  constexpr std::size_t kMostOps = 4'000'000;
  Bytes parameters{0};
  for (const OpId op : problem.ops()) parameters += problem.graph().parameter_bytes(op);
  const bool rings = options.collective == Collective::ring || options.collective == Collective::hierarchical;
  const std::size_t buckets = static_cast<std::size_t>(parameters.count >> 20) / options.bucket_mebibytes + 1;
  const std::size_t each = problem.op_count() + (rings ? 3 * buckets * replicas : 0);
  if (each > kMostOps / replicas)
    throw InputError({.code = "too-large",
                      .message = fmt::format("{} replicas of graph '{}' and their rings are more than {} ops", replicas,
                                             problem.graph().name(), kMostOps),
                      .help = "take a tree, larger buckets, or fewer devices"});
}

}  // namespace

Schedule place_replicas(const Problem& problem, const ReplicasOptions& options) {
  if (!trains_parameters(problem.graph()))
    throw InputError(
        {.code = "no-training",
         .message = fmt::format("graph '{}' trains no parameters: it has no batch to divide", problem.graph().name()),
         .help = "data parallelism is of training steps"});
  std::vector<DeviceId> devices = worthy_devices(problem);
  if (options.collective == Collective::ring) devices = ring_order(problem, devices);
  check_size(problem, options, devices.size());
  GraphSplit split{.parts = devices.size(),
                   .collective = options.collective,
                   .zero = options.zero,
                   .bucket = Bytes{static_cast<std::int64_t>(options.bucket_mebibytes) << 20}};
  if (options.collective == Collective::hierarchical)
    split.per_node = options.per_node.value_or(nodes_of(problem, devices));
  std::optional<std::pair<Schedule, Outcome>> best;
  for (; split.zero <= 3; ++split.zero) {
    Schedule schedule = placed(problem, split, devices);
    const Outcome outcome = simulated_outcome(problem.with_splits({split}), schedule);
    if (!best || outcome.excess < best->second.excess) best.emplace(std::move(schedule), outcome);
    const bool may_shard = options.fitting && options.collective == Collective::ring && devices.size() > 1;
    if (best->second.excess == Bytes{0} || !may_shard) break;
  }
  return std::move(best->first);
}

}  // namespace trainyard
