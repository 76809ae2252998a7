#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Time and channels of a collective that runs alone. With n devices d(0), d(1), ..., S bytes and r concurrent rings:
///
///     time       the measured time if the costs have one (Costs::collective_time); otherwise steps x step(S / n), or
///                with several rings steps x step(S / (n r))
///     step(b)    the longest of: for each hop, its latency + b / bandwidth; for each channel, the sum of b / bandwidth
///                over the hops of all rings on it, plus, for a serial one, the summed latencies of one ring's hops
///
///     all-reduce                  2 (n - 1) steps of the rings (collective_rings); a single ring has the hops
///                                 d(i) -> d(i + 1); or over a box in a torus, or by trees over several hosts, as below
///     all-gather, reduce-scatter  n - 1 steps of the rings, or over a box in a torus
///     all-to-all                  n - 1 steps; step k has the hops d(i) -> d(i + k)
///     shift                       one step of S bytes, d(i) -> d(i + 1)
///     broadcast                   n - 2 + k steps of S / k bytes along the chain from the first device; the number of
///                                 pieces k minimizes the time: k = sqrt((n - 2) S / (bandwidth latency))
///
/// Additions take no time, because they overlap with arriving data. A collective on one device takes no time.
///
/// Box in a torus: n(1), ..., n(D) devices per dimension, without the dimensions of size 1. It is reduced dimension by
/// dimension (Ying et al., Image Classification at Supercomputer Scale, 2018, 2.3), on all links at once: the bytes are
/// divided into D equal parts; part j passes the dimensions j, j + 1, ... in consecutive phases, half of it in each
/// direction. A phase along dimension k, after which m devices hold different shares, takes 2 (n(k) - 1) steps of S /
/// (2 D m) bytes for an all-reduce, and half as many for the others. The slowest part determines the time of a phase.
/// So an all-reduce on a cube with n devices per dimension takes the sum over p = 1, ..., D of 2 (n - 1) step(S / (2 D
/// n^p)); its bytes alone take (1 - n^-D) S / (D B), with B the bandwidth of a link in one direction.
///
/// Trees. On h > 1 hosts of a fabric, an all-reduce goes up and down trees of hosts, in which each host is the chain of
/// its devices, if that is faster than rings. With g the most devices on a host, and A and a the longest latencies
/// between hosts and within a host among the hops of a ring, it takes
///
///     2 (ceil(log2 h) A + (g - 1) a) + 2 n x (the time of step(S / (n r)) without latencies)
///
/// in pieces so small that latencies count only once along the path. There are two trees; each host is a leaf in one
/// and an inner node in the other. They send 2 S over each card, while rings send 2 (n - 1) / n S (Sanders et al.,
/// Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009). NCCL also uses such trees, and rings
/// for reduce-scatters and all-gathers. The trees occupy the same channels as the rings.
///
/// Contention. Collectives that share a serial link wait for each other. On fair links each collective is a flow
/// (simulate/model/fair_flows.hpp) that counts on a channel as often as the hops of a step pass it, on average, rounded
/// up.
struct CollectiveRun {
  Nanoseconds time;
  Nanoseconds latency;              // of the steps; part of `time`
  std::vector<ChannelId> channels;  // of all hops, ascending; a fair channel as often as hops pass it at once
  struct Hop {
    DeviceId from, to;
    Bytes bytes;  // over all steps
  };
  std::vector<Hop> hops;    // of the rings or the chain, or of all pairs
  std::size_t slowest = 0;  // index of the slowest of `hops`
};

/// Number of hosts of a fabric that have any of the devices; 1 without a fabric.
std::size_t host_count(const Cluster& cluster, const std::vector<DeviceId>& devices);

/// The rings of a collective, each of which carries an equal share of the bytes. Usually there is one, in the order of
/// the devices. If the devices are on several hosts of a fabric, with g > 1 in the same places on each, there is one
/// ring per network card of these devices, so that all cards send at once. Ring j enters the first, third, ... host at
/// the first device of its card and passes it forwards; it passes the other hosts in the opposite direction. So it
/// leaves a host by the card by which it enters the next one, like NCCL's rings on rails; with an odd number of hosts
/// the last hop changes cards. If each device has several cards, there are g rings, whose hops use all cards of a
/// device. A box in a torus has one ring per direction along each of its lines.
std::vector<std::vector<DeviceId>> collective_rings(const Cluster& cluster, const std::vector<DeviceId>& devices);

/// Throws InputError ("size") if there are no devices. They must be distinct.
CollectiveRun collective_run(const Problem& problem, const CollectiveTask& task, const std::vector<DeviceId>& devices);

/// The devices of a collective, in ring order: those of the ops before and after it, each at the first of its ops; in a
/// fold those that CollectiveTask defines.
std::vector<DeviceId> collective_devices(const Graph& graph, OpId collective, const Placement& placement);

/// Computes the runs of a problem's collectives, once for equal collectives. Refers to the problem: keep it alive.
class CollectiveRuns {
 public:
  explicit CollectiveRuns(const Problem& problem) : problem_(&problem) {}
  const CollectiveRun& of(OpId collective, const Placement& placement);

 private:
  using Alike = std::tuple<CollectiveKind, Bytes, std::vector<DeviceId>>;
  const Problem* problem_;
  std::map<Alike, CollectiveRun> known_;
};

/// A device's part in a collective: the tensor of its member, which is held there from the start of the collective. It
/// is drawn as a transfer from the device before it in the ring.
struct CollectivePart {
  TensorId tensor;
  DeviceId from, to;
};
/// One part per device, for the first member there that has a tensor; members in ascending id. The root of a broadcast
/// has no part, and neither has a collective on one device.
std::vector<CollectivePart> collective_parts(const Graph& graph, OpId collective, const Placement& placement);

/// Bytes that each device sends in total, consistent with the time above.
Bytes sent_by_each(const CollectiveTask& task, std::size_t devices);

}  // namespace trainyard
