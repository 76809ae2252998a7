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

/// What a collective holds, and for how long, where it runs alone. With n devices d(0), d(1), ... and S bytes:
///
///     time       as measured, where the costs know it (Costs::collective_time); else steps x step(S / n), of r rings
///                at once steps x step(S / (n r))
///     step(b)    the longest of: a hop's latency + b / bandwidth; what the hops of a ring over one channel take one
///                after the other, of a fair channel their bytes alone, with the bytes of the other rings' hops over it
///
///     all-reduce                  2 (n - 1) steps of the rings (collective_rings), of one: d(i) -> d(i + 1)
///                                 of a box in a torus, or by trees over several hosts, as below
///     all-gather, reduce-scatter  n - 1 steps of them
///     all-to-all                  n - 1 steps, in step k d(i) -> d(i + k)
///     shift                       one step of S, d(i) -> d(i + 1)
///     broadcast                   n - 2 + k steps of S / k along the chain from the first device, k the
///                                 number of pieces that makes it shortest, sqrt((n - 2) S / (bandwidth latency))
///
/// Additions take no time: they overlap with what arrives. One device takes none at all.
///
/// A box in a torus, of n(1), ..., n(D) devices a dimension (those of one left out), is summed dimension by dimension
/// (Ying et al., Image Classification at Supercomputer Scale, 2018, 2.3), on all links at once: of D equal parts of the
/// bytes, part j goes along the dimensions j, j + 1, ..., one phase after the other, half of it each way round. In a
/// phase along dimension k, after which m of the devices hold different shares, an all-reduce takes 2 (n(k) - 1), the
/// others half of it, times step(S / (2 D m)); a phase takes as long as the part that takes longest. So an all-reduce
/// of a cube of n in each dimension takes the sum over p = 1, ..., D of 2 (n - 1) step(S / (2 D n^p)), in bytes (1 -
/// n^-D) S / (D B), B the bandwidth of a link each way.
///
/// Trees. Over h > 1 hosts of a fabric an all-reduce goes up trees of hosts, each the chain of its devices, and down
/// again, where that takes less than rings do: with g devices on a host at most, and the longest latencies A between
/// hosts and a within one, of those in a ring,
///
///     2 (ceil(log2 h) A + (g - 1) a) + 2 n x what the bytes of step(S / (n r)) take without latencies
///
/// in pieces so small that only the way takes latencies. Two trees, in which each host is once a leaf and once not,
/// pass all cards with 2 S, where rings take 2 (n - 1) / n S (Sanders et al., Two-tree algorithms for full bandwidth
/// broadcast, reduction and scan, 2009; as NCCL, which takes rings for the others, reduce-scatters and all-gathers).
/// They hold what rings do.
///
/// Contention. Where links are serial, collectives that meet on one wait for each other. On fair ones each is a flow
/// (simulate/model/fair_flows.hpp) that passes a channel as often as hops of a step do, in the mean, rounded up.
struct CollectiveRun {
  Nanoseconds time;
  Nanoseconds latency;              // of the steps, part of `time`
  std::vector<ChannelId> channels;  // of all hops, ascending; once, but a fair one as often as hops pass it at once
  struct Hop {
    DeviceId from, to;
    Bytes bytes;  // in all steps
  };
  std::vector<Hop> hops;    // of the rings or the chain, or of all pairs
  std::size_t slowest = 0;  // of the hops
};

/// Hosts of a fabric that have any of the devices; without a fabric, one.
std::size_t host_count(const Cluster& cluster, const std::vector<DeviceId>& devices);

/// The rings of a collective, each with an equal part of its bytes: one, in the order of the devices; over several
/// hosts of a fabric that have g > 1 of them each, in the same places, one for each network card of these, so that all
/// cards send at once. Ring j passes the first, third, ... host from its card's first device on, forwards, and the
/// others the opposite way, so that it leaves by the card by which it enters the next host, as NCCL's rings do on
/// rails; after an odd number of hosts the last hop changes cards. Of devices with several cards one ring each, whose
/// hops take all of them. Of a box in a torus a ring each way along each of its lines.
std::vector<std::vector<DeviceId>> collective_rings(const Cluster& cluster, const std::vector<DeviceId>& devices);

/// `devices`: distinct, at least one: else InputError ("size").
CollectiveRun collective_run(const Problem& problem, const CollectiveTask& task, const std::vector<DeviceId>& devices);

/// The devices of the ops before and after a collective, in the order of the first of these on each, which is the
/// ring's; of a fold CollectiveTask's.
std::vector<DeviceId> collective_devices(const Graph& graph, OpId collective, const Placement& placement);

/// Runs of a problem's collectives, of alike ones worked out once. Refers to the problem: keep it alive.
class CollectiveRuns {
 public:
  explicit CollectiveRuns(const Problem& problem) : problem_(&problem) {}
  const CollectiveRun& of(OpId collective, const Placement& placement);

 private:
  using Alike = std::tuple<CollectiveKind, Bytes, std::vector<DeviceId>>;
  const Problem* problem_;
  std::map<Alike, CollectiveRun> known_;
};

/// What a member's device gets of the collective: the member's tensor, which is held there from the collective's start
/// on, drawn as if it came from the device before it in the ring.
struct CollectivePart {
  TensorId tensor;
  DeviceId from, to;
};
/// Parts of the first member with a tensor on each device, by ascending id; none of a broadcast's root, or where one
/// device has all.
std::vector<CollectivePart> collective_parts(const Graph& graph, OpId collective, const Placement& placement);

/// Bytes that each device sends on, as the time above has it.
Bytes sent_by_each(const CollectiveTask& task, std::size_t devices);

}  // namespace trainyard
