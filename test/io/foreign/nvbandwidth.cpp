#include "trainyard/io/foreign/nvbandwidth.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/input_text.hpp"

using namespace trainyard;
using test::contains;
using Peers = BandwidthReport::Peers;

namespace {

std::string measured_test(const std::string& name, const std::string& matrix, const std::string& status = "Passed") {
  return R"({"name": ")" + name + R"(", "status": ")" + status + R"(", "bandwidth_matrix": )" + matrix + "}";
}

std::string measured_file(const std::vector<std::string>& tests, const std::string& devices = "") {
  std::string text = R"({"nvbandwidth": {"version": "v0.8", )" + devices + R"("testcases": [)";
  for (std::size_t i = 0; i < tests.size(); ++i) text += (i ? ",\n" : "") + tests[i];
  return text + "]}}";
}

/// Four V100: two NVLinks between 0 and 1, one between 2 and 3; GPUs 2 and 3 share their path to the host.
std::vector<std::string> four_gpus() {
  return {measured_test("host_to_device_memcpy_ce", R"([["11", "11", "11", "11"]])"),
          measured_test("device_to_host_memcpy_ce", R"([["12", "12", "12", "12"]])"),
          measured_test("device_to_device_memcpy_write_ce",
                        R"([["N/A", "48.4", "N/A", "N/A"], ["48.5", "N/A", "N/A", "N/A"],
                      ["N/A", "N/A", "N/A", "24.2"], ["N/A", "N/A", "24.2", "N/A"]])"),
          measured_test("all_to_host_memcpy_ce", R"([["12", "11.9", "6.1", "5.9"]])")};
}

std::string refused_machine(const std::string& text, const std::string& kind = "") {
  return test::refusal_text([&] { parse_nvbandwidth(text, "box.json", kind); });
}

/// The bandwidth of an ordered pair in GB/s.
double pair_rate(const Cluster& cluster, std::size_t from, std::size_t to) {
  return cluster.route(DeviceId{from}, DeviceId{to}).bandwidth.value / 1e9;
}

}  // namespace

TEST_CASE("a file of nvbandwidth is a cluster with its links, its buses, and the way through the host") {
  const BandwidthReport report = parse_nvbandwidth(measured_file(four_gpus()), "box.json", "V100");
  CHECK(report.peers == Peers::links);
  CHECK(report.cluster.devices[3] == make_device(*find_device_kind("V100"), "gpu3"));
  CHECK(report.buses == std::vector<std::vector<std::size_t>>{{2, 3}});
  // Predicted 12 / 2 = 6 against measured 6.1 and 5.9: at most 1.7 % off. Predicted 12 against 11.9: 0.8 %.
  CHECK(report.concurrent_error == doctest::Approx(6 / 5.9 - 1).epsilon(1e-6));
  const Cluster cluster = make_cluster(report.cluster);
  // The GPU of the column writes to that of the row: GPU 1 to GPU 0 at 48.4, the other direction at 48.5.
  CHECK(pair_rate(cluster, 1, 0) == doctest::Approx(48.4));
  CHECK(pair_rate(cluster, 0, 1) == doctest::Approx(48.5));
  CHECK(pair_rate(cluster, 2, 3) == doctest::Approx(24.2));
  // Up to the host at 12 and then down at 11 GB/s: 1 / (1/12 + 1/11) = 5.739.
  CHECK(pair_rate(cluster, 0, 2) == doctest::Approx(5.7391).epsilon(1e-4));
  CHECK(contains(report.notes.front().c_str(), "8 of 12 pairs have no peer access"));
  // From 2 to 0: each one's link to the host, and the bus that 2 and 3 share.
  CHECK(cluster.route(DeviceId{2}, DeviceId{0}).channels.size() == 3);
  CHECK(cluster.route(DeviceId{0}, DeviceId{1}).channels.size() == 1);
  // The cluster is equal after writing and reading its file.
  std::ostringstream out;
  write_cluster(report.cluster, out);
  ClusterSpec named = report.cluster;
  CHECK(parse_cluster(out.str(), "box.toml") == named);
}

TEST_CASE("a switch is told from links of their own by what one GPU sends to all at once") {
  // Every pair reaches 270 GB/s. Three GPUs have no separate links for that, so it is a switch even without the
  // one-to-all test.
  std::vector<std::string> tests{
      measured_test("host_to_device_memcpy_ce", R"([["50", "50", "50"]])"),
      measured_test("device_to_host_memcpy_ce", R"([["50", "50", "50"]])"),
      measured_test("device_to_device_memcpy_write_ce",
                    R"([["N/A", "270", "271"], ["272", "N/A", "273"], ["274", "275", "N/A"]])")};
  const std::string devices = R"x("GPU Device list": ["0: NVIDIA A100-SXM4-80GB (0000:00:04.0)", "1: x", "2: x"], )x";
  CHECK(parse_nvbandwidth(measured_file(tests, devices), "box.json").peers == Peers::ports);
  const std::vector<std::string> alone = tests;
  tests.push_back(measured_test("one_to_all_write_ce", R"([["540", "540", "540"]])"));
  CHECK(parse_nvbandwidth(measured_file(tests, devices), "box.json").peers == Peers::links);
  tests = alone;
  tests.push_back(measured_test("one_to_all_write_ce", R"([["272", "272", "272"]])"));
  const BandwidthReport report = parse_nvbandwidth(measured_file(tests, devices), "box.json");
  CHECK(report.peers == Peers::ports);
  CHECK(report.cluster.devices[0].kind == "A100-SXM4-80GB");
  CHECK(report.cluster.devices[1].kind.empty());
  CHECK(report.notes.size() == 2);
  CHECK(*report.one_to_all_error == doctest::Approx(272.0 / 270 - 1));
  const Cluster cluster = make_cluster(report.cluster);
  CHECK(pair_rate(cluster, 2, 0) == doctest::Approx(271));
  // Out of one port and into another.
  CHECK(cluster.route(DeviceId{2}, DeviceId{0}).channels.size() == 2);
  CHECK(cluster.route(DeviceId{2}, DeviceId{0}).latency == Nanoseconds{5'000});
}

TEST_CASE("PCIe peers go over their links to the host, at their own bandwidth") {
  const BandwidthReport report = parse_nvbandwidth(
      measured_file({measured_test("host_to_device_memcpy_ce", R"([["12", "12"]])"),
                     measured_test("device_to_host_memcpy_ce", R"([["13", "13"]])"),
                     measured_test("device_to_device_memcpy_write_ce", R"([["N/A", "10.1"], ["10.2", "N/A"]])")}),
      "box.json");
  CHECK(report.peers == Peers::pcie);
  const Cluster cluster = make_cluster(report.cluster);
  CHECK(pair_rate(cluster, 0, 1) == doctest::Approx(10.2));
  CHECK(cluster.route(DeviceId{0}, DeviceId{1}).links.size() == 2);
}

TEST_CASE("a file of nvbandwidth that failed, or lacks what is needed, is refused by name") {
  CHECK(contains(refused_machine(R"({"nvbandwidth": {"error": "[CUDA_ERROR_SYSTEM_NOT_READY] x"}})"),
                 "nvbandwidth failed: [CUDA_ERROR_SYSTEM_NOT_READY] x"));
  CHECK(contains(refused_machine(measured_file({})), "'host_to_device_memcpy_ce' is missing"));
  std::vector<std::string> tests = four_gpus();
  tests[0] = measured_test("host_to_device_memcpy_ce", R"([["11", "11", "11", "11"]])", "Waived");
  CHECK(contains(refused_machine(measured_file(tests)), "'host_to_device_memcpy_ce' is missing, or did not pass"));
  tests = four_gpus();
  tests[1] = measured_test("device_to_host_memcpy_ce", R"([["12", "12"]])");
  CHECK(contains(refused_machine(measured_file(tests)), "has 4 GPUs, but its reverse has 2"));
  tests = four_gpus();
  tests[2] = measured_test("device_to_device_memcpy_write_ce", R"([["N/A", "-4"]])");
  CHECK(contains(refused_machine(measured_file(tests)), "is not a matrix of 4 x 4 GPUs"));
  tests = four_gpus();
  tests[3] = measured_test("all_to_host_memcpy_ce", R"([["12", "fast", "6", "6"]])");
  CHECK(contains(refused_machine(measured_file(tests)), "error[cell]: 'fast' is not a bandwidth in GB/s"));
  CHECK(contains(refused_machine(measured_file(four_gpus()), "V1000"), "no device kind is named 'V1000'"));
  CHECK(contains(refused_machine("{\"other\": 1}"), "not what nvbandwidth -j writes"));
  CHECK(is_nvbandwidth(" {\n\"nvbandwidth\": {}}"));
  CHECK_FALSE(is_nvbandwidth("{\"format\": \"nvbandwidth\"}"));
}

TEST_CASE("measured servers of five vendors: every pair within 1 %, those that failed refused") {
  const auto folder = test::reference_data("formats/nvbandwidth");
  if (!folder) return test::report_skipped("no reference data");
  std::size_t read = 0, several = 0, close = 0, refused = 0;
  std::vector<std::size_t> kinds(4);
  std::vector<double> one_to_all;
  std::vector<std::string> halves;
  for (const auto& entry : std::filesystem::directory_iterator{*folder}) {
    const std::string name = entry.path().filename().string();
    if (name.find(".json") == std::string::npos) continue;
    CAPTURE(name);
    if (name.starts_with("bad__")) {
      CHECK(contains(refused_machine(read_input(entry.path())), "error[nvbandwidth]"));
      ++refused;
      continue;
    }
    const BandwidthReport report = parse_nvbandwidth(read_input(entry.path()), name);
    ++read;
    if (report.cluster.devices.size() < 2) continue;
    ++several;
    ++kinds[static_cast<std::size_t>(report.peers)];
    close += report.concurrent_error < 0.05;
    CHECK(report.pair_error < 0.01);
    if (report.one_to_all_error) one_to_all.push_back(*report.one_to_all_error);
    if (report.host_both && *report.host_both < 0.75) halves.push_back(name);
    const Cluster cluster = make_cluster(report.cluster);
    for (const MeasuredRoute& route : report.cluster.measured) {
      const auto index = [](const std::string& gpu) { return static_cast<std::size_t>(std::stoi(gpu.substr(3))); };
      CHECK(pair_rate(cluster, index(route.from), index(route.to)) ==
            doctest::Approx(route.bandwidth.value / 1e9).epsilon(1e-9));
    }
  }
  CHECK(read == 112);
  CHECK(refused == 2);
  CHECK(several == 66);
  // Counts: through the host, PCIe peer to peer, separate NVLinks, switches.
  CHECK(kinds == std::vector<std::size_t>{36, 7, 11, 12});
  // Machines whose worst GPU is within 5 % if all GPUs copy at once. The others share a path by a factor that is not
  // whole, or have noisy neighbours.
  CHECK(close >= 45);
  // One GPU's writes to all others: the worst GPU of each server with NVLinks.
  CHECK(one_to_all.size() == 23);
  CHECK(median_of(one_to_all) < 0.03);
  // Only Google's L4 servers reach less than 3/4 of the sum of both directions at once.
  CHECK(halves.size() == 3);
  for (const std::string& name : halves) CHECK(contains(name, "gcp__g2-standard"));
}

TEST_CASE("the built-in clusters' links are the median of like servers within 3 %") {
  const auto folder = test::reference_data("formats/nvbandwidth");
  if (!folder) return test::report_skipped("no reference data");
  // The median rate in one direction over the pairs of all servers whose direct link is within 20 % of the preset's.
  const auto median = [&](const std::vector<std::string>& servers, double preset) {
    std::vector<double> rates;
    for (const std::string& server : servers) {
      const auto report = parse_nvbandwidth(read_input(*folder / (server + ".json.gz")), server);
      for (const MeasuredRoute& route : report.cluster.measured)
        if (route.latency == Nanoseconds{5'000} && std::abs(route.bandwidth.value / preset - 1) < 0.2)
          rates.push_back(route.bandwidth.value);
    }
    REQUIRE_FALSE(rates.empty());
    return median_of(rates);
  };
  const auto preset = [](const char* name, std::size_t from, std::size_t to) {
    return make_cluster(preset_cluster(name)).route(DeviceId{from}, DeviceId{to}).bandwidth.value;
  };
  struct Like {
    const char* name;
    std::size_t to;  // the peer of GPU 0
    std::vector<std::string> servers;
  };
  const std::vector<std::string> p3{"aws__p3.8xlarge", "aws__p3.16xlarge", "aws__p3dn.24xlarge"};
  for (const Like& like : {Like{"dgx1-v100", 1, p3}, Like{"dgx1-v100", 3, p3}, Like{"2xV100-nvlink-pcie", 1, p3},
                           Like{"dgx-a100", 1, {"gcp__a2-highgpu-8g"}}, Like{"8xA100-80GB", 1, {"gcp__a2-ultragpu-8g"}},
                           Like{"hgx-h100", 1, {"gcp__a3-highgpu-8g", "gcp__a3-megagpu-8g", "gcp__a3-edgegpu-8g"}},
                           Like{"hgx-h200", 1, {"gcp__a3-ultragpu-8g", "gcp__a3-ultragpu-8g-nolssd"}}}) {
    CAPTURE(like.name);
    const double rate = preset(like.name, 0, like.to);
    CHECK(rate == doctest::Approx(median(like.servers, rate)).epsilon(0.03));
  }
}
