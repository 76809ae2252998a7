#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Devices of a plan: rank k of replica r on stage i is devices[(i replicas + r) ranks + k]. As many replicas in a row
/// as `context` says share a sequence, or as `experts` says divide experts; these groups exchange by all-to-alls, or by
/// rings.
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

/// Replicas that do the same: the first of each class, ascending, and how many there are of it; each replica's class.
struct FoldClasses {
  std::vector<std::size_t> representatives, sizes, of;
};

/// The classes of replicas of a plan of which one tensor rank, of one replica of each class, can stand for all.
///
/// Tasks are what a rank computes on a stage, C(i; r, k); transfers between stages, P(i, j; r, k); collectives of a
/// replica's ranks, T(i; r), of groups of replicas, G(i; g, k), of the replicas that hold the same experts, E(i; e, k),
/// and of all replicas, D(i; k). Colours: of C the device's kind, memory and gap; of the others the classes of the
/// routes of their hops. They are refined until nothing changes: the colour of a channel is its gap, its bandwidth
/// where it is fair, and the colours of the tasks that hold it; that of a task, its own and those of the channels that
/// it holds; both with where P holds the channel in its route, and with the classes of a ring's hops over it. Two
/// replicas are of one class where all their tasks are of the same colours.
///
/// Then tasks of one colour start and end together, by induction over the instants of the simulation: they have become
/// ready together; their channels are held and wanted by tasks of the same colours, so idle together; and which of two
/// different tasks goes first is the same everywhere, as ops of replicas and ranks are numbered next to each other, and
/// collectives come behind transfers. Two images of one task must not meet on a serial channel. So the folded step is
/// the whole one to the nanosecond, and so are the devices' peaks, but for the bytes by which shares of the batch and
/// of buckets differ. (Colours are 64-bit hashes.)
///
/// On fair channels tasks of one colour have one rate: progressive filling, which serves all channels with the least
/// share at once, sees the colours alone. What is simulated passes them together with its images
/// (simulate/model/fold_loads.hpp), so each that it holds itself has the share that it has in the whole step; and a
/// rate is the share of one of these.
///
/// On serial ones what is left out is to be like what is simulated: every channel of a task that stands for others must
/// be like one that it holds among the tasks that are simulated, with as many of each colour. What of different
/// replicas would meet on a channel is not lost so.
///
/// `crossings`: the pairs of stages between which tensors pass. Throws InputError ("too-large"), with the devices or
/// the link: devices that are not in a row, tensor ranks that differ, two images that meet on a serial link, such a
/// link shared with what is left out, more than `most` classes. O(replicas ranks crossings + hops of rings),
/// times the rounds.
FoldClasses fold_classes(const Problem& problem, const PlanMesh& mesh,
                         const std::set<std::pair<std::size_t, std::size_t>>& crossings, std::size_t most);

}  // namespace trainyard
