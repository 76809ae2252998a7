#include "trainyard/place/cut/recursive_bisection.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/cut/cut_graph.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

class Bisection {
 public:
  Bisection(const Problem& problem, const GroupGraph& graph, const BisectionOptions& options)
      : problem_(problem), graph_(graph), options_(options) {}

  GroupDevices run() {
    std::vector<DeviceId> devices;
    for (const DeviceId device : problem_.devices()) devices.push_back(device);
    sort_by(devices, [&](DeviceId device) { return problem_.column(device); });
    std::vector<GroupId> groups;
    for (const GroupId group : result_.ids()) groups.push_back(group);
    split(devices, groups);
    return std::move(result_);
  }

 private:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

  /// Position at which the devices are halved: between two kinds, nearest to the middle; with one kind, the middle.
  std::size_t middle_of(std::span<const DeviceId> devices) const {
    std::size_t best = 0;
    const auto off = [&](std::size_t at) {
      return std::max(2 * at, devices.size()) - std::min(2 * at, devices.size());
    };
    for (std::size_t i = 1; i < devices.size(); ++i)
      if (problem_.column(devices[i]) != problem_.column(devices[i - 1]) && (best == 0 || off(i) < off(best))) best = i;
    return best == 0 ? devices.size() / 2 : best;
  }

  /// Divides the groups, each of which can run on at least one of the devices.
  void split(std::span<const DeviceId> devices, const std::vector<GroupId>& groups) {
    if (groups.empty()) return;
    if (devices.size() == 1) {
      for (const GroupId group : groups) result_[group] = devices.front();
      return;
    }
    const std::size_t middle = middle_of(devices);
    const std::array<std::span<const DeviceId>, 2> halves{devices.first(middle), devices.subspan(middle)};
    for (std::uint32_t s = 0; s < 2; ++s)
      for (const DeviceId device : halves[s]) side_of_[device] = s;
    const CutGraph cut = cut_graph(groups);
    const std::vector<std::uint8_t> sides = bisect(cut, targets(cut, halves), random_);
    for (const DeviceId device : devices) side_of_[device] = kNone;
    std::array<std::vector<GroupId>, 2> parts;
    for (std::size_t v = 0; v < groups.size(); ++v) parts[sides[v]].push_back(groups[v]);
    for (std::size_t s = 0; s < 2; ++s) split(halves[s], parts[s]);
  }

  CutGraph cut_graph(const std::vector<GroupId>& groups) {
    for (std::uint32_t v = 0; v < groups.size(); ++v) vertex_of_[groups[v]] = v;
    CutGraph cut;
    for (const GroupId group : groups) {
      // On each side, the mean over the devices there that can run the group.
      std::array<std::int64_t, 2> sum{}, count{}, load{};
      for (const DeviceId device : graph_.able[group]) {
        if (side_of_[device] == kNone) continue;
        sum[side_of_[device]] += graph_.time(group, problem_.column(device));
        ++count[side_of_[device]];
      }
      for (std::size_t s = 0; s < 2; ++s) load[s] = count[s] > 0 ? sum[s] / count[s] : 0;
      cut.loads.push_back(load);
      cut.bytes.push_back(memory_.need(group).held.count);
      cut.fixed.push_back(count[0] == 0 ? std::int8_t{1} : count[1] == 0 ? std::int8_t{0} : CutGraph::kFree);
      for (std::size_t e = graph_.starts[group.index()]; e < graph_.starts[group.index() + 1]; ++e)
        if (const std::uint32_t other = vertex_of_[graph_.neighbours[e]]; other != kNone) {
          cut.neighbours.push_back(other);
          cut.weights.push_back(graph_.weights[e]);
        }
      cut.starts.push_back(static_cast<std::uint32_t>(cut.neighbours.size()));
    }
    for (const GroupId group : groups) vertex_of_[group] = kNone;
    return cut;
  }

  /// With F the fixed load of a side, A the load of the free groups there, n its number of devices, and f the share of
  /// the free groups on side 0, both sides finish at once if (F0 + f A0) / n0 = (F1 + (1 - f) A1) / n1.
  CutTargets targets(const CutGraph& cut, const std::array<std::span<const DeviceId>, 2>& halves) const {
    std::array<double, 2> fixed{}, free{}, count{};
    for (std::size_t v = 0; v < cut.size(); ++v)
      for (std::size_t s = 0; s < 2; ++s) {
        if (cut.fixed[v] == CutGraph::kFree)
          free[s] += static_cast<double>(cut.loads[v][s]);
        else if (cut.fixed[v] == static_cast<std::int8_t>(s))
          fixed[s] += static_cast<double>(cut.loads[v][s]);
      }
    for (std::size_t s = 0; s < 2; ++s) count[s] = static_cast<double>(halves[s].size());
    const double rate = count[1] * free[0] + count[0] * free[1];
    const double share =
        rate > 0 ? std::clamp((count[0] * (fixed[1] + free[1]) - count[1] * fixed[0]) / rate, 0.0, 1.0) : 0.5;
    CutTargets targets{.imbalance = options_.imbalance};
    targets.loads[0] = static_cast<std::int64_t>(fixed[0] + share * free[0]);
    targets.loads[1] = static_cast<std::int64_t>(fixed[1] + (1 - share) * free[1]);
    for (std::size_t s = 0; s < 2; ++s)
      for (const DeviceId device : halves[s]) {
        const auto& capacity = problem_.cluster().device(device).memory;
        if (!capacity || capacity->count > kMostBytes - targets.bytes[s])
          targets.bytes[s] = kMostBytes;
        else
          targets.bytes[s] += capacity->count;
      }
    return targets;
  }

  const Problem& problem_;
  const GroupGraph& graph_;
  const BisectionOptions& options_;
  const MemoryLedger memory_{problem_};
  Random random_{options_.seed};
  IdMap<GroupId, std::uint32_t> vertex_of_{graph_.size(), kNone};
  IdMap<DeviceId, std::uint32_t> side_of_{problem_.device_count(), kNone};
  GroupDevices result_{graph_.size(), DeviceId::none()};
};

}  // namespace

GroupDevices bisect_devices(const Problem& problem, const GroupGraph& graph, const BisectionOptions& options) {
  return Bisection{problem, graph, options}.run();
}

}  // namespace trainyard
