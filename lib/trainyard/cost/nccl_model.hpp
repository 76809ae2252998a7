#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/collective_task.hpp"

namespace trainyard {

/// What a rank sends at the least, over S: 2 (n - 1) / n for an all-reduce, 1 for a broadcast, else (n - 1) / n. Bus
/// bandwidth is this times S / time.
double bus_factor(CollectiveKind kind, std::size_t ranks);

enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
enum class NcclAlgorithm : std::uint8_t { tree, ring, nvls, nvls_tree };
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
const char* name_of(NcclAlgorithm algorithm);
const char* name_of(NcclProtocol protocol);

/// What NCCL's choice goes by.
struct NcclMachine {
  GpuGeneration generation = GpuGeneration::ampere;
  bool nvlink = true;           // in a node; else PCIe
  bool nvls = false;            // switches add (NVLink SHARP)
  std::size_t channels = 24;    // of all rings and trees together
  BytesPerSecond intra{264e9};  // of all channels of a GPU within its node, one way
  BytesPerSecond inter{100e9};  // of all network cards of a node, one way; counts where there are several nodes
};

struct NcclTime {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double latency;            // seconds
  BytesPerSecond bandwidth;  // of S
  double seconds;
};

/// The time of a collective that runs alone, as NCCL's tuning model has it, over `nodes` equal nodes (which divide the
/// ranks), with r = n / nodes:
///
///     time = latency + S / bandwidth, the minimum over algorithms and protocols
///
///     ring        latency     base + (steps - q) max(link, post) + q net
///                             steps = 2 (n - 1) and q = 2 (nodes - 1) for an all-reduce, else n - 1 and nodes - 1
///                 bandwidth   B n / steps, of a broadcast B;  LL: B <- min(cap, B / 2);  LL128: B <- min(.92 B,
///                 channels cap)
///     tree        latency     base + 2 ((r - 1) link + log2(nodes) net)
///                 bandwidth   c(S) B / 2, B <- min(.92 B, channels cap);  LL: B / 3.8;  LL128: 7/9 B in a node, .94 B
///                             between, at most channels cap
///     NVLS        latency     link (+ net);  bandwidth  2 e B n / steps, e = .85 (Hopper), .74 (Blackwell)
///     NVLS tree   latency     link + 2 log2(nodes) net;  bandwidth as NVLS
///     all-to-all  one step of sends between all pairs: base + link (net), B n / (n - 1), B / nodes' share between
///     nodes
///     shift       one step of sends to the next rank: base + link (net), B
///
/// B is `intra`, and at most `inter` where there are several nodes. base, link and net are latencies by algorithm and
/// protocol, post that of handing over to the network card (1 us, Simple 3); c(S) is the model's correction of trees of
/// 64 B to 256 MiB; a Simple ring over several nodes has 1.4 times its latency in an all-reduce of 64 bytes and more a
/// channel and rank (1.9 before Ampere). Trees and NVLS are for all-reduces, LL128 needs NVLink, all-to-alls and
/// shifts are not in NCCL's model.
///
/// NVIDIA/nccl, src/graph/tuning.cc (5067397, 2.2x), written anew from its constants.
///
/// Nothing for an algorithm and protocol that do not do this collective there.
std::optional<NcclTime> nccl_time(CollectiveKind kind, Bytes bytes, std::size_t ranks, std::size_t nodes,
                                  const NcclMachine& machine, NcclAlgorithm algorithm, NcclProtocol protocol);

/// The fastest of them. One rank, or no bytes: no time.
NcclTime nccl_time(CollectiveKind kind, Bytes bytes, std::size_t ranks, std::size_t nodes, const NcclMachine& machine);

/// The least latency of any of them, in seconds.
double nccl_latency(CollectiveKind kind, std::size_t ranks, std::size_t nodes, const NcclMachine& machine);

}  // namespace trainyard
