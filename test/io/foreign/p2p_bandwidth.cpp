#include "trainyard/io/foreign/p2p_bandwidth.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"

using namespace trainyard;
using test::contains;

namespace {

std::string p2p_text() { return test::read_text(test::source_dir() / "test/fuzz/seeds/machine_texts/p2p.txt"); }

std::string with_change(const char* from, const char* to) {
  std::string text = p2p_text();
  text.replace(text.find(from), std::string{from}.size(), to);
  return text;
}

std::string refused_p2p(const std::string& text) {
  return test::refusal_text([&] { parse_p2p_bandwidth(text, "p2p.txt"); });
}
}  // namespace

TEST_CASE(
    "p2pBandwidthLatencyTest is a cluster: pairs with their bandwidths and latencies, by peer access or without") {
  CHECK(is_p2p_bandwidth(p2p_text()));
  const BandwidthReport report = parse_p2p_bandwidth(p2p_text(), "p2p.txt");
  CHECK(report.peers == BandwidthReport::Peers::links);
  CHECK(report.cluster.devices[2].kind == "V100-SXM2-16GB");
  CHECK(report.to_host.empty());
  CHECK(report.pair_error < 1e-9);
  const Cluster cluster = make_cluster(report.cluster);
  const auto route = [&](std::size_t from, std::size_t to) { return cluster.route(DeviceId{from}, DeviceId{to}); };
  CHECK(route(0, 1).bandwidth.value == doctest::Approx(48.34e9));  // row 0, column 1
  CHECK(route(1, 0).bandwidth.value == doctest::Approx(48.35e9));
  CHECK(route(0, 1).latency == Nanoseconds{1'850});
  CHECK(route(0, 1).links.size() == 1);
  // GPUs 0 and 2 have no peer access: the matrix without peer access applies, through the host.
  CHECK(route(0, 2).bandwidth.value == doctest::Approx(9.90e9));
  CHECK(route(0, 2).latency == Nanoseconds{12'400});
  CHECK(route(0, 2).links.size() == 2);
  // Bidirectional 96.41 over 48.34 + 48.35, and 48.31 over 24.17 + 24.18: both directions at full speed.
  CHECK(*report.peers_both == doctest::Approx(0.9981).epsilon(1e-3));
}

TEST_CASE(
    "both directions of a pair that share a link make it half duplex; NVLinks to a switch are told by their number") {
  const BandwidthReport shared = parse_p2p_bandwidth(with_change("0 751.00  96.41", "0 751.00  52.00"), "p2p.txt");
  for (const Link& link : shared.cluster.links)
    CHECK((link.duplex == Duplex::half) == (link.name == "gpu0-gpu1"));  // 52 of 96.7 GB/s
  const auto equal = [](const char* rate) {
    std::string text = "P2P Connectivity Matrix\n D\\D 0 1 2\n 0 1 1 1\n 1 1 1 1\n 2 1 1 1\n";
    for (const char* mode : {"Disabled", "Enabled"})
      text += std::string{"Unidirectional P2P="} + mode + " Bandwidth Matrix (GB/s)\n D\\D 0 1 2\n 0 900 " + rate +
              " " + rate + "\n 1 " + rate + " 900 " + rate + "\n 2 " + rate + " " + rate + " 900\n";
    return text;
  };
  using Peers = BandwidthReport::Peers;
  CHECK(parse_p2p_bandwidth(equal("93"), "p2p.txt").peers == Peers::links);
  CHECK(parse_p2p_bandwidth(equal("270"), "p2p.txt").peers == Peers::ports);
  CHECK(parse_p2p_bandwidth(equal("12"), "p2p.txt").peers == Peers::pcie);
  // NV12 to each of two peers would exceed a GPU's links, so there is a switch; NV4 would not.
  const auto links = [](const char* word) {
    const std::string w = word;
    return parse_gpu_topology("GPU0 GPU1 GPU2 CPU Affinity\nGPU0 X " + w + " " + w + " 0\nGPU1 " + w + " X " + w +
                                  " 0\nGPU2 " + w + " " + w + " X 0\n",
                              "topo.txt");
  };
  const GpuTopology twelve = links("NV12"), four = links("NV4");
  CHECK(parse_p2p_bandwidth(equal("93"), "p2p.txt", "", &twelve).peers == Peers::ports);
  CHECK(parse_p2p_bandwidth(equal("270"), "p2p.txt", "", &four).peers == Peers::links);
}

TEST_CASE("a text of p2pBandwidthLatencyTest that is wrong or cut short is refused by line") {
  const std::string text = p2p_text();
  CHECK(contains(refused_p2p(text.substr(0, text.find("Unidirectional P2P=Enabled"))), "P2P=Enabled is missing"));
  CHECK(contains(refused_p2p(text.substr(0, text.find("   9.92  24.18"))),
                 "the matrix Unidirectional P2P=Enabled is cut short"));
  CHECK(contains(refused_p2p(with_change("48.34", "fast")),
                 "p2p.txt:23:16: error[cell]: 'fast' is neither a bandwidth in GB/s nor a latency in us"));
  for (const char* rate : {"-1", "0", "7e20"})
    CHECK(contains(refused_p2p(with_change("48.34", rate)),
                   fmt::format("'{}' is neither a bandwidth in GB/s nor a latency in us", rate).c_str()));
  CHECK(contains(refused_p2p("[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"), "P2P=Disabled is missing"));
  CHECK_FALSE(is_p2p_bandwidth("hello"));
}
