#include "trainyard/place/parallel/replicas_placer.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

/// `parallel` is the problem after the rewrite.
Schedule placed(const Problem& problem, const Problem& parallel, const Replicate& replicate,
                const std::vector<DeviceId>& devices, const Checkpoint& checkpoint) {
  // Repeats the rewrite, for the replica of each op.
  const DataParallelGraph replicas = data_parallel(problem.graph(), replicate, true, 0, checkpoint);
  Schedule schedule{.placement = Placement(parallel.op_count()), .rewrites = {replicate}};
  IdMap<DeviceId, Bytes> held(problem.device_count());
  const auto all = parallel.devices();
  for (const GroupId group : parallel.groups()) {
    const auto ops = parallel.group_ops(group);
    const std::size_t replica = replicas.replica[ops.front()];
    DeviceId device = devices.front();
    if (replica < devices.size())
      device = devices[replica];
    else
      device = *std::ranges::min_element(devices, {}, [&](DeviceId each) {
        return std::pair{!parallel.can_run(group, each), held[each]};
      });
    if (!parallel.can_run(group, device))
      device = *std::ranges::find_if(all, [&](DeviceId each) { return parallel.can_run(group, each); });
    for (const OpId op : ops) {
      schedule.placement[op] = device;
      held[device] += parallel.resident_bytes(op);
    }
  }
  return schedule;
}

/// Depth-first search for a cycle through all devices by hops of at least `least`, in at most `steps` steps.
class CircleSearch {
 public:
  CircleSearch(const Cluster& cluster, const std::vector<DeviceId>& devices, BytesPerSecond least, std::size_t steps)
      : cluster_(cluster), devices_(devices), least_(least), steps_(steps), used_(devices.size(), false) {}

  bool extend() {
    if (path_.empty()) take(0);
    if (path_.size() == devices_.size()) return reaches(devices_.front());
    for (std::size_t next = 1; next < devices_.size(); ++next) {
      if (used_[next] || !reaches(devices_[next])) continue;
      if (steps_ == 0) return false;
      --steps_;
      take(next);
      if (extend()) return true;
      used_[next] = false;
      path_.pop_back();
    }
    return false;
  }
  const std::vector<DeviceId>& path() const { return path_; }
  std::size_t steps_left() const { return steps_; }

 private:
  bool reaches(DeviceId next) const {
    return cluster_.route_classes()[cluster_.route_class(path_.back(), next)].bandwidth >= least_;
  }
  void take(std::size_t device) {
    path_.push_back(devices_[device]);
    used_[device] = true;
  }

  const Cluster& cluster_;
  const std::vector<DeviceId>& devices_;
  BytesPerSecond least_;
  std::size_t steps_;
  std::vector<bool> used_;
  std::vector<DeviceId> path_;
};

}  // namespace

std::vector<DeviceId> ring_order(const Problem& problem, const std::vector<DeviceId>& devices) {
  if (devices.size() < 4) return devices;
  const Cluster& cluster = problem.cluster();
  std::vector<bool> is_there(cluster.route_classes().size(), false);
  for (const DeviceId from : devices)
    for (const DeviceId to : devices)
      if (from != to) is_there[cluster.route_class(from, to)] = true;
  std::set<BytesPerSecond, std::greater<>> values;
  for (std::size_t i = 0; i < is_there.size(); ++i)
    if (is_there[i]) values.insert(cluster.route_classes()[i].bandwidth);
  std::size_t left = 200'000;
  for (const BytesPerSecond least : values) {
    if (left == 0) break;
    const std::size_t steps = std::max(left / 2, devices.size());
    CircleSearch search{cluster, devices, least, steps};
    if (search.extend()) return search.path();
    left -= std::min(left, steps - search.steps_left());
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
  check_batch(problem.graph(), "no-training", "give the graph of a training step");
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
    if (best && is_too_large(problem.graph(), replicate)) continue;  // higher stages make more ops
    try {
      Checkpoint checkpoint{options.stop};
      const Problem parallel = apply_rewrites(problem, {replicate}, checkpoint);
      Schedule schedule = placed(problem, parallel, replicate, devices, checkpoint);
      checkpoint();
      const Outcome outcome = Evaluator{parallel}.outcome(schedule);
      if (!best || outcome.excess < best->second.excess) best.emplace(std::move(schedule), outcome);
    } catch (const OutOfTime&) {
      if (!best) throw;
      break;
    }
    const bool may_shard = options.fitting && rings && devices.size() > 1;
    if (best->second.excess == Bytes{0} || !may_shard) break;
  }
  return std::move(best->first);
}

}  // namespace trainyard
