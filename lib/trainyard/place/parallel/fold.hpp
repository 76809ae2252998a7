#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Whether one tensor rank of one replica can stand for all of a plan: the reason why it cannot, or nothing. With p
/// stages, d replicas and t ranks, image g = (r, k) moves each of them on by r replicas and k ranks, around. A fold is
/// exact where the images of everything that the first rank does
///
///     take the same time     devices of one kind, memory and gap in each stage; routes between stages, and of the
///     rings
///                            of replicas and of ranks, of one class; channels with the same gap, none of them fair
///     hold images' channels  image g maps the channels of all these routes one to one
///     never meet             no channel is on routes between stages of two images
///
/// and which of two tasks goes first is the same in each image: collectives come behind transfers, and ops of replicas
/// and ranks are numbered next to each other. Then, by induction over the instants of the simulation, every image runs
/// as the first one does: the folded step is the whole one to the nanosecond, and so are the devices' peaks but for the
/// bytes by which shares of the batch and of buckets differ.
///
/// Looks at every route between two stages of every image, and at every hop of the rings: O(d t (p^2 + d + t)).
/// `devices`: the mesh of plan_schedule.hpp.
std::optional<std::string> why_not_folded(const Problem& problem, const StagePlan& plan,
                                          const std::vector<DeviceId>& devices);

}  // namespace trainyard
