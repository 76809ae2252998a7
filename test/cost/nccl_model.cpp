#include "trainyard/cost/nccl_model.hpp"

#include <doctest/doctest.h>

#include "trainyard/core/quantity.hpp"

using namespace trainyard;
using doctest::Approx;
using enum CollectiveKind;

namespace {

/// 8 A100 behind an NVSwitch, with network cards of 100 GB/s a node.
const NcclMachine kA100{};

double microseconds(CollectiveKind kind, std::int64_t bytes, std::size_t ranks, std::size_t nodes,
                    const NcclMachine& machine, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const auto time = nccl_time(kind, Bytes{bytes}, ranks, nodes, machine, algorithm, protocol);
  REQUIRE(time);
  return time->seconds * 1e6;
}

}  // namespace

TEST_CASE("a ring's time is its steps and what it sends, by protocol") {
  const auto ring = [](CollectiveKind kind, NcclProtocol protocol) {
    return microseconds(kind, 264'000'000, 8, 1, kA100, NcclAlgorithm::ring, protocol);
  };
  // Simple: latency 8.4 + 14 x 3.4 us, and 264 MB x 14/8 at 264 GB/s.
  CHECK(ring(all_reduce, NcclProtocol::simple) == Approx(8.4 + 47.6 + 1750));
  // Half of the steps and half of the bytes.
  CHECK(ring(all_gather, NcclProtocol::simple) == Approx(8.4 + 23.8 + 875));
  CHECK(ring(reduce_scatter, NcclProtocol::simple) == Approx(8.4 + 23.8 + 875));
  // LL: latency 6.6 + 14 x .6 us, at 87.7 GB/s. LL128: 14 + 14 x 1.9 us, at .92 x 264 GB/s.
  CHECK(ring(all_reduce, NcclProtocol::ll) == Approx(15 + 1750 * 264 / 87.7));
  CHECK(ring(all_reduce, NcclProtocol::ll128) == Approx(40.6 + 1750 / .92));
}

TEST_CASE("a tree's time goes by the depth of nodes and a correction for its size") {
  // In one node the tree is a chain: 8.4 + 2 x 7 x 4 us. 1 GiB has no correction: half of .92 x 264 GB/s.
  CHECK(microseconds(all_reduce, 1 << 30, 8, 1, kA100, NcclAlgorithm::tree, NcclProtocol::simple) ==
        Approx(8.4 + 56 + (1 << 30) / (0.46 * 264e3)));
  // 4 nodes of 8: 8.4 + 2 x (7 x 4 + 2 x 14) us. At 256 KiB = 64 B x 2^12 the correction halves the bandwidth of the
  // cards.
  CHECK(microseconds(all_reduce, 1 << 18, 32, 4, kA100, NcclAlgorithm::tree, NcclProtocol::simple) ==
        Approx(8.4 + 112 + (1 << 18) / (0.5 * 0.46 * 100e3)));
}

TEST_CASE("a ring over two nodes crosses twice, at the pace of the cards, and a Simple one has its plateau") {
  // Latency: 14 us + 28 steps of max(1.9, 1) us + 2 of 4 us. A ring with LL128 reaches .92 of the bandwidth, NCCL's
  // value for 120/128.
  CHECK(microseconds(all_reduce, 92'000'000, 16, 2, kA100, NcclAlgorithm::ring, NcclProtocol::ll128) ==
        Approx(14 + 28 * 1.9 + 2 * 4 + 1000 * 30 / 16.0));
  CHECK(microseconds(all_reduce, 100'000'000, 16, 2, kA100, NcclAlgorithm::ring, NcclProtocol::simple) ==
        Approx(1.4 * (8.4 + 28 * 3.4 + 2 * 14) + 1000 * 30 / 16.0));
}

TEST_CASE("NVLS is for Hopper's switches and all-reduces alone, and wins there for large arrays") {
  NcclMachine h100{.generation = GpuGeneration::hopper, .nvls = true, .channels = 16, .intra = BytesPerSecond{389e9}};
  CHECK(microseconds(all_reduce, 1'000'000'000, 8, 1, h100, NcclAlgorithm::nvls, NcclProtocol::simple) ==
        Approx(25 + 1e6 / (1.7 * 389 * 8 / 14)));
  CHECK(nccl_time(all_reduce, Bytes{1 << 30}, 8, 1, h100).algorithm == NcclAlgorithm::nvls);
  CHECK(nccl_time(all_reduce, Bytes{1024}, 8, 1, h100).algorithm != NcclAlgorithm::nvls);
  CHECK_FALSE(nccl_time(all_gather, Bytes{1024}, 8, 1, h100, NcclAlgorithm::nvls, NcclProtocol::simple));
  CHECK_FALSE(nccl_time(all_reduce, Bytes{1024}, 8, 1, kA100, NcclAlgorithm::nvls, NcclProtocol::simple));
  CHECK_FALSE(nccl_time(all_reduce, Bytes{1024}, 8, 1, h100, NcclAlgorithm::nvls_tree, NcclProtocol::simple));
  // Latency of an NVLS tree: 25 + 2 x log2(4) x 20.9 us.
  h100.inter = BytesPerSecond{400e9};
  const auto tree = nccl_time(all_reduce, Bytes{0}, 32, 4, h100, NcclAlgorithm::nvls_tree, NcclProtocol::simple);
  REQUIRE(tree);
  CHECK(tree->latency * 1e6 == Approx(25 + 83.6));
}

TEST_CASE("the choice is LL for small arrays, Simple for large ones, and never slower for fewer bytes' latency") {
  CHECK(nccl_time(all_reduce, Bytes{64}, 8, 1, kA100).protocol == NcclProtocol::ll);
  CHECK(nccl_time(all_reduce, Bytes{1 << 30}, 8, 1, kA100).protocol == NcclProtocol::simple);
  CHECK(nccl_latency(all_reduce, 8, 1, kA100) * 1e6 == Approx(6.8 + 14 * 0.6).epsilon(0.02));  // tree 6.8, ring 6.6
  // Without NVLink LL128 is not available, and a step takes 1 us.
  const NcclMachine cards{.nvlink = false, .intra = BytesPerSecond{12e9}};
  CHECK_FALSE(nccl_time(all_reduce, Bytes{1}, 2, 1, cards, NcclAlgorithm::ring, NcclProtocol::ll128));
  CHECK(nccl_latency(all_reduce, 4, 1, cards) * 1e6 == Approx(6.6 + 6));
}

TEST_CASE("an all-to-all sends each rank's part to each other, and shares the node's cards where it leaves it") {
  // 7/8 of 264 MB at 264 GB/s; latency 8.4 + 3.4 us.
  CHECK(nccl_time(all_to_all, Bytes{264'000'000}, 8, 1, kA100).seconds * 1e6 == Approx(11.8 + 875));
  // Half of each rank's 100 MB leaves the node, together with that of 7 other ranks: 400 MB at 100 GB/s.
  CHECK(nccl_time(all_to_all, Bytes{100'000'000}, 16, 2, kA100).seconds * 1e6 == Approx(8.4 + 14 + 4000));
}

TEST_CASE("a shift sends what a rank has to the next, at the bandwidth of a link") {
  // 264 MB at 264 GB/s; latency 8.4 + 3.4 us.
  CHECK(nccl_time(CollectiveKind::shift, Bytes{264'000'000}, 8, 1, kA100).seconds * 1e6 == Approx(11.8 + 1000));
  CHECK(bus_factor(CollectiveKind::shift, 8) == 1);
}

TEST_CASE("one rank, and nothing to add, take no time; kinds have names") {
  CHECK(nccl_time(all_reduce, Bytes{1 << 20}, 1, 1, kA100).seconds == 0);
  CHECK(nccl_time(all_reduce, Bytes{0}, 8, 1, kA100).seconds == 0);
  for (int i = 0; i < kCollectiveKinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    CHECK(find_collective_kind(name_of(kind)) == kind);
  }
  CHECK_FALSE(find_collective_kind("allreduce"));
  CHECK(bus_factor(all_reduce, 4) == 1.5);
  CHECK(bus_factor(all_to_all, 4) == 0.75);
}
