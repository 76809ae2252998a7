#pragma once

#include <string_view>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The task graphs and device networks on which GiPH was trained and tested (Hu et al.: GiPH: Generalizable Placement
/// Learning for Adaptive Heterogeneous Computing, MLSys 2023), by the rules of its authors' notebook
/// (github.com/uidmice/placement-rl, Generate_data.ipynb; layers as of Topcuoglu, Hariri and Wu 2002), from random
/// numbers of our own: alike in distribution, not one by one. One of its units of time is 1 ms here, of data 1 MB, of
/// work 1 GFLOP. With U uniform:
///
///     layers    ceil(U(0.8, 1.2) sqrt(v) / alpha), each of ceil(U(0, 2 alpha sqrt(v))) ops; an op before, one behind
///     reads     each op each op of any layer before with probability `connect`; one op of each layer the one of the
///               layer before; what then reads nothing, or is read by nothing, one of any layer before, or behind
///     ops       U(1 - s/2, 1 + s/2) `compute` of work; each read U(1 - s/2, 1 + s/2) `bytes`, a tensor of its own;
///               one of `types` kinds of hardware, without which no device can run it
///     devices   speed U(1 - s/2, 1 + s/2) `speed`; of each kind of hardware with probability `hardware`, one at least
///     links     between any two devices: latency U(0, 2 `delay`), time of a byte U(1 - s/2, 1 + s/2) / `bandwidth`, in
///               both ways alike; transfers never wait for each other (its simulator lets them wait for nothing but the
///               op)
///
/// alpha, connect, hardware and the spreads s (`spread-compute`, `spread-bytes`, `spread-speed`, `spread-bandwidth`)
/// are in percent. Ours: hardware that no device has is given to one at random, so that every op can run.

bool is_giph(std::string_view spec);

/// "giph:devices=20,seed=3". The class of a device names its hardware. Throws InputError: "unknown-parameter", "spec",
/// "range".
ClusterSpec make_giph_network(std::string_view spec);

/// "giph:v=15,alpha=30,connect=20,seed=25", for the devices of such a network: the type of an op is its hardware.
/// Throws likewise, and "infeasible" where no device has it.
Graph make_giph_graph(std::string_view spec, const ClusterSpec& network);

}  // namespace trainyard
