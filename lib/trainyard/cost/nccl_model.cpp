#include "trainyard/cost/nccl_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace trainyard {
namespace {

constexpr std::array kAlgorithms{NcclAlgorithm::tree, NcclAlgorithm::ring, NcclAlgorithm::nvls,
                                 NcclAlgorithm::nvls_tree};
constexpr std::array kProtocols{NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple};

// Latencies in us by algorithm (tree, ring, NVLS, NVLS tree) and protocol (LL, LL128, Simple).
using Latencies = std::array<std::array<double, 3>, 4>;
constexpr Latencies kBase{{{6.8, 14, 8.4}, {6.6, 14, 8.4}, {0, 0, 0}, {0, 0, 0}}};
constexpr Latencies kNvLink{{{0.6, 1.25, 4}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}}};
constexpr Latencies kPcie{{{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 0}, {0, 0, 0}}};
constexpr Latencies kNet{{{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 18}, {0, 0, 20.9}}};

// Caps in GB/s by generation, for 1, 2 and more nodes: LL caps for all channels together, the others per channel.
using Caps = std::array<std::array<double, 3>, 4>;
constexpr Caps kMostLl{{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr Caps kMostRingLl128{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 73.4, 73.4}}};
constexpr Caps kMostTreeLl128{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {73.4, 73.4, 58}}};
constexpr Caps kMostTree{{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};

// Correction of a tree's bandwidth, by protocol and log2(S / 64 B).
constexpr std::array<std::array<double, 23>, 3> kTreeCorrection{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

constexpr double kGiga = 1e9, kMicro = 1e-6;
constexpr double kRingShare = .92, kTreeShare = .92;

template <class Enum>
constexpr std::size_t at(Enum value) {
  return static_cast<std::size_t>(value);
}

/// One collective, algorithm and protocol on a machine.
struct Case {
  CollectiveKind kind;
  double bytes, ranks, nodes;
  const NcclMachine& machine;
  NcclAlgorithm algorithm;
  NcclProtocol protocol;

  bool all_reduce() const { return kind == CollectiveKind::all_reduce; }
  double of(const Latencies& latencies) const { return latencies[at(algorithm)][at(protocol)]; }
  double link() const { return of(machine.nvlink ? kNvLink : kPcie); }
  double cap(const Caps& caps) const { return caps[at(machine.generation)][nodes > 2 ? 2 : nodes > 1 ? 1 : 0] * kGiga; }
  double depth() const { return std::floor(std::log2(nodes)); }
  double steps() const { return all_reduce() ? 2 * (ranks - 1) : ranks - 1; }

  bool exists() const;
  double latency() const;    // us
  double bandwidth() const;  // of S, bytes a second
  double bus() const;
};

/// Whether the collective is one step of sends between pairs of ranks.
bool by_sends(CollectiveKind kind) { return kind == CollectiveKind::all_to_all || kind == CollectiveKind::shift; }

bool Case::exists() const {
  const bool simple = protocol == NcclProtocol::simple;
  if (by_sends(kind)) return algorithm == NcclAlgorithm::ring && simple;
  if (protocol == NcclProtocol::ll128 && !machine.nvlink) return false;
  if (algorithm == NcclAlgorithm::ring) return true;
  if (!all_reduce()) return false;
  if (algorithm == NcclAlgorithm::tree) return true;
  return simple && machine.nvls && at(machine.generation) >= at(GpuGeneration::hopper) &&
         (algorithm == NcclAlgorithm::nvls || nodes > 1);
}

double Case::latency() const {
  const double base = of(kBase), net = of(kNet);
  if (by_sends(kind)) return base + (nodes > 1 ? net : link());
  switch (algorithm) {
    case NcclAlgorithm::ring: {
      const bool simple = protocol == NcclProtocol::simple;
      const double crossings = (all_reduce() ? 2 : 1) * (nodes - 1);
      const double step = nodes > 1 ? std::max(link(), simple ? 3.0 : 1.0) : link();
      const double all = base + (steps() - crossings) * step + crossings * net;
      const bool plateau =
          simple && nodes > 1 && all_reduce() && bytes / (static_cast<double>(machine.channels) * ranks) >= 64;
      return !plateau ? all : all * (machine.generation == GpuGeneration::volta ? 1.9 : 1.4);
    }
    case NcclAlgorithm::tree:
      return base + 2 * ((ranks / nodes - 1) * link() + depth() * net);
    case NcclAlgorithm::nvls:
      return link() + (nodes > 1 ? net : 0);
    case NcclAlgorithm::nvls_tree:
      break;
  }
  return base + link() + 2 * depth() * net;
}

double Case::bus() const {
  const double all = nodes > 1 ? std::min(machine.intra.value, machine.inter.value) : machine.intra.value;
  const auto channels = static_cast<double>(machine.channels);
  if (algorithm == NcclAlgorithm::ring) {
    if (protocol == NcclProtocol::ll) return std::min(cap(kMostLl), all / 2);
    if (protocol == NcclProtocol::ll128) return std::min(kRingShare * all, channels * cap(kMostRingLl128));
    return all;
  }
  if (algorithm != NcclAlgorithm::tree) return 2 * all * (machine.generation == GpuGeneration::hopper ? .85 : .74);
  const double tree = std::min(kTreeShare * all, channels * cap(kMostTree));
  if (protocol == NcclProtocol::ll) return std::min(tree / 3.8, cap(kMostLl));
  if (protocol == NcclProtocol::ll128)
    return std::min(tree * (nodes > 1 ? 120.0 / 128 : 7.0 / 9), channels * cap(kMostTreeLl128));
  return tree;
}

double Case::bandwidth() const {
  if (kind == CollectiveKind::all_to_all) {
    // A rank sends (n - r) / n of S out of its node, and a node's cards carry this for its r ranks.
    const double per_node = ranks / nodes;
    const double within = machine.intra.value * ranks / (ranks - 1);
    return nodes > 1 ? std::min(within, machine.inter.value / per_node * ranks / (ranks - per_node)) : within;
  }
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::shift) return bus();
  if (algorithm != NcclAlgorithm::tree) return bus() * ranks / steps();
  const auto units = static_cast<std::uint64_t>(bytes) >> 6;
  const std::size_t power = units == 0 ? 0 : static_cast<std::size_t>(std::bit_width(units)) - 1;
  const auto& correction = kTreeCorrection[at(protocol)];
  return bus() / 2 * (power < correction.size() ? correction[power] : 1);
}

}  // namespace

double bus_factor(CollectiveKind kind, std::size_t ranks) {
  const auto n = static_cast<double>(std::max<std::size_t>(ranks, 1));
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::shift) return 1;
  return (kind == CollectiveKind::all_reduce ? 2 : 1) * (n - 1) / n;
}

std::optional<NcclTime> nccl_time(CollectiveKind kind, Bytes bytes, std::size_t ranks, std::size_t nodes,
                                  const NcclMachine& machine, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const Case each{kind,
                  static_cast<double>(bytes.count),
                  static_cast<double>(ranks),
                  static_cast<double>(nodes),
                  machine,
                  algorithm,
                  protocol};
  if (ranks < 2 || !each.exists()) return std::nullopt;
  const double latency = each.latency() * kMicro, bandwidth = each.bandwidth();
  return NcclTime{algorithm, protocol, latency, BytesPerSecond{bandwidth}, latency + each.bytes / bandwidth};
}

NcclTime nccl_time(CollectiveKind kind, Bytes bytes, std::size_t ranks, std::size_t nodes, const NcclMachine& machine) {
  NcclTime best{NcclAlgorithm::ring, NcclProtocol::simple, 0, machine.intra, 0};
  if (ranks < 2 || bytes.count == 0) return best;
  bool any = false;
  for (const NcclAlgorithm algorithm : kAlgorithms)
    for (const NcclProtocol protocol : kProtocols)
      if (const auto time = nccl_time(kind, bytes, ranks, nodes, machine, algorithm, protocol);
          time && (!any || time->seconds < best.seconds))
        best = *time, any = true;
  return best;
}

double nccl_latency(CollectiveKind kind, std::size_t ranks, std::size_t nodes, const NcclMachine& machine) {
  double least = 0;
  bool any = false;
  for (const NcclAlgorithm algorithm : kAlgorithms)
    for (const NcclProtocol protocol : kProtocols)
      if (const auto time = nccl_time(kind, Bytes{0}, ranks, nodes, machine, algorithm, protocol);
          time && (!any || time->latency < least))
        least = time->latency, any = true;
  return least;
}

}  // namespace trainyard
