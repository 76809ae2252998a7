#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Devices of a plan: rank k of replica r on stage i is devices[(i replicas + r) ranks + k]. `context` consecutive
/// replicas share a sequence, or `experts` consecutive replicas divide the experts. These groups exchange data by
/// all-to-alls if `all_to_all` is set, otherwise by rings.
struct PlanMesh {
  const std::vector<DeviceId>& devices;
  std::size_t replicas = 1, ranks = 1, context = 1, experts = 1;
  bool all_to_all = false;

  std::size_t group() const { return context * experts; }

  std::size_t stages() const { return devices.size() / (replicas * ranks); }
  DeviceId at(std::size_t stage, std::size_t replica, std::size_t rank) const {
    return devices[(stage * replicas + replica % replicas) * ranks + rank % ranks];
  }
};

/// Classes of replicas that do the same work: the first replica of each class, ascending; the size of each class; and
/// the class of each replica.
struct FoldClasses {
  std::vector<std::size_t> representatives, sizes, of;
};

/// Partitions the replicas of a plan into classes, such that one tensor rank of one replica of each class can be
/// simulated in place of all.
///
/// Tasks are the compute of a rank on a stage, C(i; r, k); transfers between stages, P(i, j; r, k); collectives of a
/// replica's ranks, T(i; r), of groups of replicas, G(i; g, k), of the replicas that hold the same experts, E(i; e, k),
/// and of all replicas, D(i; k). The initial colour of a C is the device's kind, memory and gap; that of the others,
/// the route classes of their hops. Colours are refined until nothing changes. The colour of a channel combines its
/// gap, its bandwidth if it is fair, and the colours of the tasks that hold it. The colour of a task combines its own
/// and those of the channels that it holds. Both include where in its route a P holds the channel, and the classes of a
/// ring's hops over it. Two replicas are in one class if all their tasks have equal colours.
///
/// Tasks of one colour then start and end together, by induction over the instants of the simulation. They become ready
/// together. Their channels are held and requested by tasks of equal colours, so they are idle together. The order of
/// two different tasks is the same everywhere, since ops of replicas and ranks are numbered consecutively, and
/// collectives come after transfers. Two images of one task must not meet on a serial channel. The folded step
/// therefore equals the whole step to the nanosecond, and so do the devices' peaks, except for the bytes by which
/// shares of the batch and of buckets differ. (Colours are 64-bit hashes.)
///
/// On fair channels tasks of one colour have one rate: progressive filling, which serves all channels with the least
/// share at once, depends on colours only. A simulated task loads channels together with its images
/// (simulate/model/fold_loads.hpp), so each channel that it holds itself has the same share as in the whole step. Its
/// rate is the share of one of these channels.
///
/// On serial channels the tasks that are left out must be like those that are simulated. For every serial channel that
/// a simulated task holds, the task must hold some channel on which the simulated tasks alone have the colours that all
/// tasks have on the first one. This keeps the fold from losing contention between different replicas.
///
/// `crossings`: the pairs of stages between which tensors pass. Throws InputError "too-large", naming the devices or
/// the link, for devices that are not consecutive, tensor ranks that differ, two images that meet on a serial link, a
/// serial link shared with tasks that are left out, replicas of one group (`context` x `experts`) that differ, several
/// classes that divide experts, and more than `most` classes. O(replicas ranks crossings + hops of rings) for each
/// round of refinement.
FoldClasses fold_classes(const Problem& problem, const PlanMesh& mesh,
                         const std::set<std::pair<std::size_t, std::size_t>>& crossings, std::size_t most);

}  // namespace trainyard
