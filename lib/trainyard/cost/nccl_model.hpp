#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/collective_task.hpp"

namespace trainyard {

/// The least bytes that a rank sends, divided by S: 2 (n - 1) / n for an all-reduce, 1 for a broadcast or shift, else
/// (n - 1) / n. Bus bandwidth is this factor times S / time.
double bus_factor(CollectiveKind kind, std::size_t ranks);

enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
enum class NcclAlgorithm : std::uint8_t { tree, ring, nvls, nvls_tree };
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };

/// The properties of a machine that NCCL's tuning model uses.
struct NcclMachine {
  GpuGeneration generation = GpuGeneration::ampere;
  bool nvlink = true;           // within a node; else PCIe
  bool nvls = false;            // the switches reduce (NVLink SHARP)
  std::size_t channels = 24;    // of all rings and trees together
  BytesPerSecond intra{264e9};  // all channels of a GPU within its node, one way
  BytesPerSecond inter{100e9};  // all network cards of a node, one way; used for several nodes
};

struct NcclTime {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double latency;            // seconds
  BytesPerSecond bandwidth;  // bytes of S per second
  double seconds;
};

/// The time of a collective of n ranks that runs alone, by NCCL's tuning model, over `nodes` equal nodes of r = n /
/// nodes ranks:
///
///     time = latency + S / bandwidth, for one algorithm and protocol
///
///     ring        latency     base + (steps - q) max(link, post) + q net
///                             steps = 2 (n - 1) and q = 2 (nodes - 1) for an all-reduce, else n - 1 and nodes - 1
///                 bandwidth   B n / steps, for a broadcast B
///                             LL: B <- min(cap, B / 2);  LL128: B <- min(.92 B, channels cap)
///     tree        latency     base + 2 ((r - 1) link + log2(nodes) net)
///                 bandwidth   c(S) B / 2, B <- min(.92 B, channels cap), then
///                             LL: min(cap, B / 3.8);  LL128: 7/9 B in a node, .94 B between, at most channels cap
///     NVLS        latency     link, over several nodes + net
///                 bandwidth   2 e B n / steps, e = .85 (Hopper), .74 (Blackwell)
///     NVLS tree   latency     link + 2 log2(nodes) net
///                 bandwidth   as NVLS
///     all-to-all  latency     base + link, over several nodes base + net
///                 bandwidth   intra n / (n - 1), over several nodes at most inter / r n / (n - r)
///     shift       latency     base + link, over several nodes base + net
///                 bandwidth   B
///
/// B is `intra`, over several nodes at most `inter`. base, link and net are latencies by algorithm and protocol; link
/// is that of NVLink or PCIe. post is the latency of handing over to the network card (1 us, Simple 3 us). c(S) is the
/// model's correction of trees from 64 B to 256 MiB. In an all-reduce of at least 64 bytes per channel and rank, the
/// latency of a Simple ring over several nodes is multiplied by 1.4 (1.9 before Ampere).
///
/// Trees and NVLS support all-reduces only; NVLS needs Simple, switches that reduce, and Hopper or later; LL128 needs
/// NVLink. All-to-alls (one step of sends between all pairs) and shifts (one step of sends to the next rank) are not in
/// NCCL's model; here they are Simple rings.
///
/// Source: NVIDIA/nccl, src/graph/tuning.cc (5067397, 2.2x), rewritten from its constants.
///
/// Returns nothing for one rank, and if the algorithm and protocol do not support the collective on the machine.
std::optional<NcclTime> nccl_time(CollectiveKind kind, Bytes bytes, std::size_t ranks, std::size_t nodes,
                                  const NcclMachine& machine, NcclAlgorithm algorithm, NcclProtocol protocol);

/// The fastest algorithm and protocol. Time 0 for one rank or 0 bytes.
NcclTime nccl_time(CollectiveKind kind, Bytes bytes, std::size_t ranks, std::size_t nodes, const NcclMachine& machine);

/// The least latency over algorithms and protocols, in seconds.
double nccl_latency(CollectiveKind kind, std::size_t ranks, std::size_t nodes, const NcclMachine& machine);

}  // namespace trainyard
