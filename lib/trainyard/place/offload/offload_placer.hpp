#pragma once

#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct OffloadOptions {
  bool recompute = true;  // whether ops may run again, too
};

/// Placements that fit by keeping tensors of the forward pass in the host's memory until the backward pass needs them.
///
/// Starts from the network on each kind of GPU alone, from place_expert() and from heft(). One that fits is taken as it
/// is. The others are also tried with forward ops that run again (rewrite/recompute.hpp), as Capuchin mixes the two:
/// those that do little but read and write (at most 4 FLOPs a byte), each block of layers from what comes into it, or
/// blocks and what is cheap before them; of the whole network, or of its last three, two or one quarters, which are
/// idle for the shortest time.
///
/// In schedules that do not fit, the tensors that leave are chosen (OffloadPlan says when each must be away, and may
/// come back): as few as it takes of a list by when they are made, by how long they are idle beyond the two transfers
/// (Capuchin's free time), and by size. From the best of all these the search keeps single tensors back, then adds and
/// exchanges such as are drawn by the seed, while the simulated step is the shorter for it, at most 400 evaluations
/// where no budget is given. The least Outcome wins. A GPU's host is the device of class cpu with the shortest way
/// there and back. Ops keep the order in which they ran in the start.
///
/// M. Rhu, N. Gimelshein, J. Clemons, A. Zulfiqar, S. Keckler: vDNN. MICRO 2016. C.-C. Huang, G. Jin, J. Li:
/// SwapAdvisor. ASPLOS 2020, who search such plans by simulation. X. Peng et al.: Capuchin. ASPLOS 2020.
///
/// Where nothing fits throws NoPlacementError: "no-host" where there is no device of class cpu, "out-of-memory" with
/// the bytes that are too many. Where the graph may not be changed (PlaceOptions::rewrites) the best start is the
/// result, whether it fits or not.
Schedule place_offload(const Problem& problem, const OffloadOptions& offloading, const PlaceOptions& options);

/// What there is to gain: the step of the starts if memory were no matter, which offloading can only make longer. None
/// where there is no host, or another device holds the whole network by itself.
std::optional<Nanoseconds> offload_goal(const Problem& problem);

}  // namespace trainyard
