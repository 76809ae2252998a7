#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Times of transfers and of gradients' sums between the devices of a plan's stages, for PlanCosts: of the meshes of
/// plan_schedule.hpp.
///
///     transfer             the slowest route between the devices of two neighbours; least: the fastest, as long as it
///                          holds links from others
///     gradients' sum       an all-reduce over the replicas of a stage (collective_run, without tables linear in the
///                          bytes), as often as ranks have such sums over the same channels, each after the other, but
///                          for the least; ZeRO 1 sends as much, ZeRO 3's sum half
///     additions            of a ring's n - 1 steps, which each device makes as ops of its own where plans have rings
class MeshTimes {
 public:
  /// Whether a plan's gradients are added by rings of sends and additions, not by whole collectives.
  using HasRings = std::function<bool(const ParallelPlan&)>;

  /// Keeps a reference to the problem.
  MeshTimes(const Problem& problem, std::vector<DeviceId> devices, HasRings has_rings = {})
      : problem_(problem), devices_(std::move(devices)), has_rings_(std::move(has_rings)) {}

  /// Sets PlanCosts::transfer, ::all_reduce, ::additions, ::expert_all_reduce and ::ranks_share_links, likely or least;
  /// the object must outlive them.
  void add_to(PlanCosts& costs, bool least) const;
  /// How long a collective holds its slowest hop from others.
  Nanoseconds holding(const CollectiveRun& run) const;

 private:
  /// Devices of a stage: `ranks` of each replica, from `first` on.
  struct Mesh {
    std::size_t first, replicas, ranks;
    auto operator<=>(const Mesh&) const = default;
  };
  struct Known;
  /// A time without bytes, and by how much longer each takes, of many.
  struct LinearTime {
    double none = 0, per_byte = 0;
    double of(Bytes bytes) const { return none + per_byte * static_cast<double>(bytes.count); }
  };
  /// In which each device adds two parts (CollectiveOps) of so many bytes; least: the fastest of all.
  struct AdditionTimes {
    std::vector<Nanoseconds> of_few, of_many;
    /// The slowest's.
    LinearTime on(const Mesh& mesh) const;
  };
  /// By rings, and by trees, which ZeRO's halves of a sum are not (CollectiveRun); without trees, by rings twice.
  struct RingOrTree {
    LinearTime ring, tree;
    double of(Bytes bytes, bool trees) const { return std::min(ring.of(bytes), (trees ? tree : ring).of(bytes)); }
  };
  /// The sum of gradients: on links, where the costs have no table, how long it holds them from others at least, and of
  /// a ring the device's own additions.
  struct SumTime {
    RingOrTree links, holding;
    LinearTime additions;
    std::size_t hosts, in_turn;  // sums_in_turn()
  };

  /// The least bandwidth and the longest latency between the first ranks of replicas that have samples in common.
  std::pair<BytesPerSecond, Nanoseconds> slowest_route(const Mesh& from, const Mesh& to) const;
  /// The most and the shortest that transfers hold from each other.
  std::pair<BytesPerSecond, Nanoseconds> fastest_route(const Mesh& from, const Mesh& to) const;
  /// Devices that reach others as fast as all of the mesh, which are in the order of hosts, reach those of another
  /// mesh: of a fabric, the first and the last on each leaf. A host in both has the one's last and the other's first.
  std::vector<DeviceId> ends_of(const Mesh& mesh) const;
  SumTime sum_time(const Mesh& mesh, bool least, const AdditionTimes& additions) const;
  std::vector<DeviceId> replicas_of(const Mesh& mesh, std::size_t rank) const;
  /// Ranks whose replicas' sums hold channels of the first one's, with that: they are due at once.
  std::size_t sums_in_turn(const Mesh& mesh) const;
  /// Whether the first ranks and the first replicas hold one link each for all of a collective, which is the same.
  bool first_ranks_share_links(const Mesh& mesh) const;
  Sharing sharing(DeviceId from, DeviceId to) const;
  AdditionTimes addition_times(bool least) const;

  const Problem& problem_;
  const std::vector<DeviceId> devices_;
  const HasRings has_rings_;
};

}  // namespace trainyard
