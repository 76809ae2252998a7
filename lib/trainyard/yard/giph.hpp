#pragma once

#include <string_view>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The task graphs and device networks on which GiPH was trained and tested (Hu et al.: GiPH: Generalizable Placement
/// Learning for Adaptive Heterogeneous Computing, MLSys 2023). They follow the rules of its authors' notebook
/// (github.com/uidmice/placement-rl, Generate_data.ipynb; layers as in Topcuoglu, Hariri and Wu 2002) with random
/// numbers from this library, so that they agree in distribution, not instance by instance. GiPH's units are 1 ms of
/// time, 1 MB of data and 1 GFLOP of work here. With U uniform:
///
///     layers    ceil(U(0.8, 1.2) sqrt(v) / alpha) layers of ceil(U(0, 2 alpha sqrt(v))) ops each, with a single op
///               before and a single op after them
///     reads     An op reads each op of every earlier layer with probability `connect`. One op of each layer reads the
///               one chosen in the layer before. An op that then reads nothing reads one op of an earlier layer, and
///               one that nothing reads is read by one op of a later layer.
///     ops       U(1 - s/2, 1 + s/2) `compute` of work. Each read is a tensor of its own, of U(1 - s/2, 1 + s/2)
///               `bytes`. Each op needs one of `types` kinds of hardware; only devices with that kind can run it.
///     devices   speed U(1 - s/2, 1 + s/2) `speed`; each kind of hardware with probability `hardware`, at least one
///     links     between any two devices: latency U(0, 2 `delay`), time per byte U(1 - s/2, 1 + s/2) / `bandwidth`,
///               equal in both directions. Transfers never wait for each other (in GiPH's simulator they wait for the
///               op only).
///
/// alpha, connect, hardware and the spreads s (`spread-compute`, `spread-bytes`, `spread-speed`, `spread-bandwidth`)
/// are in percent. One rule is added: hardware that no device has is given to a random device, so that every op can
/// run.

bool is_giph(std::string_view spec);

/// Makes a network from a spec such as "giph:devices=20,seed=3". The class of a device lists its hardware. Throws
/// InputError: "unknown-parameter", "spec", "range".
ClusterSpec make_giph_network(std::string_view spec);

/// Makes a graph from a spec such as "giph:v=15,alpha=30,connect=20,seed=25" for the devices of such a network. The
/// type of an op is its hardware. Throws as make_giph_network() does, and "infeasible" if no device has an op's
/// hardware.
Graph make_giph_graph(std::string_view spec, const ClusterSpec& network);

}  // namespace trainyard
