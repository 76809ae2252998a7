#include "trainyard/place/parallel/replicas_placer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

/// `parallel` is the problem with that rewrite.
Schedule placed(const Problem& problem, const Problem& parallel, const Replicate& replicate,
                const std::vector<DeviceId>& devices) {
  // The rewritten graph once more, with the replica of each op.
  const DataParallelGraph replicas = data_parallel(problem.graph(), replicate);
  const auto able = group_devices(parallel);
  Schedule schedule{.placement = Placement(parallel.op_count()), .rewrites = {replicate}};
  IdMap<DeviceId, Bytes> held(problem.device_count());
  for (const GroupId group : parallel.groups()) {
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

bool is_too_large(const Graph& graph, const Replicate& replicate) {
  try {
    check_size(graph, replicate);
    return false;
  } catch (const InputError&) {
    return true;
  }
}

}  // namespace

Schedule place_replicas(const Problem& problem, const ReplicasOptions& options) {
  if (!trains_parameters(problem.graph()))
    throw InputError(
        {.code = "no-training",
         .message = fmt::format("graph '{}' trains no parameters: it has no batch to divide", problem.graph().name()),
         .help = "data parallelism is of training steps"});
  std::vector<DeviceId> devices = worthy_devices(problem);
  Replicate replicate{.replicas = devices.size(),
                      .collective = options.collective,
                      .zero = options.zero,
                      .bucket = Bytes{static_cast<std::int64_t>(options.bucket_mebibytes) << 20}};
  check_size(problem.graph(), replicate);
  const bool rings = options.collective == Collective::ring || options.collective == Collective::whole;
  if (rings) devices = ring_order(problem, devices);
  if (options.collective == Collective::hierarchical)
    replicate.per_node = options.per_node.value_or(nodes_of(problem, devices));
  std::optional<std::pair<Schedule, Outcome>> best;
  for (; replicate.zero <= 3; ++replicate.zero) {
    if (best && is_too_large(problem.graph(), replicate)) continue;  // of the stages that share more
    const Problem parallel = apply_rewrites(problem, {replicate});
    Schedule schedule = placed(problem, parallel, replicate, devices);
    if (!best && options.stop && options.stop()) throw OutOfTime{};
    const Outcome outcome = Evaluator{parallel}.outcome(schedule);
    if (!best || outcome.excess < best->second.excess) best.emplace(std::move(schedule), outcome);
    const bool may_shard = options.fitting && rings && devices.size() > 1;
    if (best->second.excess == Bytes{0} || !may_shard || (options.stop && options.stop())) break;
  }
  return std::move(best->first);
}

}  // namespace trainyard
