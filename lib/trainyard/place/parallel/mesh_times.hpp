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

/// Times of transfers and of gradient sums between the devices of a plan's stages, for PlanCosts. The meshes are those
/// of plan_schedule.hpp.
///
///     transfer             the slowest route between the devices of two neighbouring stages; least: the fastest route,
///                          for as long as it holds links from others
///     gradients' sum       an all-reduce over the replicas of a stage (collective_run, without tables linear in the
///                          bytes), times the number of ranks whose sums share channels, since these run in turn
///                          (least: once); ZeRO 1 sends as much, ZeRO 3's sum half
///     experts' sum         the same over the replicas of a stage that hold the same experts
///     additions            those in a ring's n - 1 steps, which each device runs as ops if the plan has rings
class MeshTimes {
 public:
  /// Whether a plan's gradients are added by rings of sends and additions, not by whole collectives.
  using HasRings = std::function<bool(const ParallelPlan&)>;

  /// Keeps a reference to the problem.
  MeshTimes(const Problem& problem, std::vector<DeviceId> devices, HasRings has_rings = {})
      : problem_(problem), devices_(std::move(devices)), has_rings_(std::move(has_rings)) {}

  /// Sets PlanCosts::transfer, ::all_reduce, ::additions, ::expert_all_reduce and ::ranks_share_links to likely times,
  /// or to least ones. The object must outlive them.
  void add_to(PlanCosts& costs, bool least) const;
  /// How long a collective holds its slowest hop from others.
  Nanoseconds holding(const CollectiveRun& run) const;

 private:
  /// Devices of a stage: `ranks` of each replica, from index `first` on.
  struct Mesh {
    std::size_t first, replicas, ranks;
    auto operator<=>(const Mesh&) const = default;
  };
  struct Known;
  /// Linear model of a time: `none` for no bytes, and `per_byte`, the slope for many bytes.
  struct LinearTime {
    double none = 0, per_byte = 0;
    double of(Bytes bytes) const { return none + per_byte * static_cast<double>(bytes.count); }
  };
  /// Time of each device to add two parts (CollectiveOps) of kFew and of kMany bytes. For least costs, that of the
  /// fastest device.
  struct AdditionTimes {
    std::vector<Nanoseconds> of_few, of_many;
    /// The times of the mesh's slowest device.
    LinearTime on(const Mesh& mesh) const;
  };
  /// Times by rings and by trees (CollectiveRun). ZeRO's halves of a sum have no trees. Without trees both are the
  /// ring's.
  struct RingOrTree {
    LinearTime ring, tree;
    double of(Bytes bytes, bool trees) const { return std::min(ring.of(bytes), (trees ? tree : ring).of(bytes)); }
  };
  /// Sum of gradients: its time on links if the costs have no table; the least time that it holds links from others;
  /// and for a ring the device's own additions.
  struct SumTime {
    RingOrTree links, holding;
    LinearTime additions;
    std::size_t hosts, in_turn;  // sums_in_turn()
  };

  /// The least bandwidth and the longest latency between the first ranks of replicas that share samples.
  std::pair<BytesPerSecond, Nanoseconds> slowest_route(const Mesh& from, const Mesh& to) const;
  /// The highest bandwidth and the shortest latency, counted only as far as transfers hold links from each other:
  /// infinite without links, no latency unless a link is serial.
  std::pair<BytesPerSecond, Nanoseconds> fastest_route(const Mesh& from, const Mesh& to) const;
  /// Devices of the mesh, which are in the order of hosts, that reach another mesh as fast as all of its devices do. In
  /// a fabric these are the first and the last device on each leaf. A host that two meshes share holds the last device
  /// of one and the first of the other.
  std::vector<DeviceId> ends_of(const Mesh& mesh) const;
  SumTime sum_time(const Mesh& mesh, bool least, const AdditionTimes& additions) const;
  std::vector<DeviceId> replicas_of(const Mesh& mesh, std::size_t rank) const;
  /// Number of ranks whose replicas' sum uses channels of the first rank's sum, itself included. All are due at once.
  std::size_t sums_in_turn(const Mesh& mesh) const;
  /// Whether the collective of the first replica's ranks and that of the first ranks of all replicas share a channel of
  /// their slowest hop, which they hold throughout.
  bool first_ranks_share_links(const Mesh& mesh) const;
  Sharing sharing(DeviceId from, DeviceId to) const;
  AdditionTimes addition_times(bool least) const;

  const Problem& problem_;
  const std::vector<DeviceId> devices_;
  const HasRings has_rings_;
};

}  // namespace trainyard
