#pragma once

#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct OffloadOptions {
  bool recompute = true;  // whether ops may be recomputed, too
};

/// Finds a placement that fits by keeping tensors of the forward pass in the host's memory until the backward pass
/// needs them.
///
/// The starts are the network on one GPU of each kind (without GPUs, one device of each kind), place_expert() and
/// heft(). A start that fits is a candidate as it is. The others are also tried with recomputed forward ops
/// (rewrite/recompute.hpp), since Capuchin mixes the two: ops that are bound by memory access (at most 4 FLOPs a byte),
/// each block of layers from its input, or blocks and the cheap ops before them. These are taken from the whole
/// network, or from its last three, two or one quarters, which are idle for the shortest time.
///
/// For starts that do not fit, the tensors that leave are chosen (OffloadPlan tells when each must be away and may come
/// back). They are the first ones, as few as suffice, of a list by the time at which they are made, by idle time beyond
/// the two transfers (Capuchin's free time), or by size. From the best of all these, a local search keeps single
/// tensors on the device, then adds and exchanges random ones, as long as the simulated step gets shorter. It makes at
/// most 400 evaluations if no budget is given. The candidate with the least Outcome is returned. A GPU's host is the
/// device of class cpu with the fastest round trip. Ops keep the order of the start's run.
///
/// M. Rhu, N. Gimelshein, J. Clemons, A. Zulfiqar, S. Keckler: vDNN. MICRO 2016. C.-C. Huang, G. Jin, J. Li:
/// SwapAdvisor. ASPLOS 2020, who search such plans by simulation. X. Peng et al.: Capuchin. ASPLOS 2020.
///
/// Throws NoPlacementError if nothing fits: "no-host" without a device of class cpu, otherwise "out-of-memory" with the
/// missing bytes; OutOfTime if time is up before anything fits. If the graph may not be changed
/// (PlaceOptions::rewrites), the best start is returned whether it fits or not.
Schedule place_offload(const Problem& problem, const OffloadOptions& offloading, const PlaceOptions& options);

/// The least step of the starts if memory were unlimited, which offloading can only lengthen. None if there is no host,
/// or if another device holds the whole network by itself.
std::optional<Nanoseconds> offload_goal(const Problem& problem);

}  // namespace trainyard
