#include "trainyard/io/foreign/gpu_topology.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/foreign/nvbandwidth.hpp"
#include "trainyard/io/input_text.hpp"

using namespace trainyard;
using test::contains;
using Groups = std::vector<std::vector<std::size_t>>;

namespace {

std::string topology_seed(const char* name) {
  return test::read_text(test::source_dir() / "test/fuzz/seeds/machine_texts" / name);
}
std::string refused_topology(const std::string& text) {
  return test::refusal_text([&] { parse_gpu_topology(text, "topo.txt"); });
}
}  // namespace

TEST_CASE("lstopo's GPUs stand by PCI address, those below one bridge share it, and sockets are told apart") {
  const std::string text = topology_seed("lstopo.xml");
  CHECK(is_lstopo(text));
  CHECK_FALSE(is_topo_matrix(text));
  const GpuTopology topology = parse_gpu_topology(text, "lstopo.xml");
  CHECK(topology.addresses == std::vector<std::string>{"0000:04:00.0", "0000:05:00.0", "0000:0a:00.0", "0000:81:00.0"});
  CHECK(topology.bridges == Groups{{0, 1}});  // the bridge's network card is no GPU
  CHECK(topology.package[0] == topology.package[1]);
  CHECK(topology.package[0] != topology.package[2]);
  CHECK(topology.names[1] == "GV100GL [Tesla V100 SXM2 16GB]");
}

TEST_CASE("nvidia-smi's matrix gives NVLinks, sockets, and what is near one network card") {
  const std::string text = topology_seed("topo.txt");
  CHECK(is_topo_matrix(text));
  const GpuTopology topology = parse_gpu_topology(text, "topo.txt");
  CHECK(topology.size() == 3);
  CHECK(topology.bridges == Groups{{0, 1}});  // NV2 to each other, both PIX to mlx5_0
  CHECK(topology.nvlinks == std::vector<std::vector<int>>{{0, 2, 0}, {2, 0, 1}, {0, 1, 0}});
  CHECK(topology.package == std::vector<std::size_t>{0, 0, 1});
  // The output as terminals print it, with an underlined header.
  CHECK(parse_gpu_topology("\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tPXB\t0-3\nGPU1\tPXB\t X \t0-3\n", "t")
            .bridges == Groups{{0, 1}});
}

TEST_CASE("topologies that are wrong or cut short are refused") {
  const std::string lstopo = topology_seed("lstopo.xml"), matrix = topology_seed("topo.txt");
  CHECK(contains(refused_topology(lstopo.substr(0, lstopo.size() / 2)), "the file is cut short"));
  CHECK(contains(refused_topology("<?xml?>\n<topology>\n</object></topology>"),
                 "topo.txt:3:2: error[topology]: this </object> has no"));
  CHECK(contains(refused_topology("<?xml?>\n<topology>\n</topology>"), "no NVIDIA GPU"));
  CHECK(contains(refused_topology(matrix.substr(0, matrix.find("GPU2\tSYS"))),
                 "the header has 3 GPUs, but there are 2 rows"));
  CHECK(contains(refused_topology("GPU0 GPU1 CPU Affinity\nGPU0 X\n"), "columns in this row: 1, in the header: 2"));
  CHECK(contains(refused_topology("GPU0 GPU1 CPU Affinity\nGPU0 X NET 0-1\nGPU1 PIX X 0-1\n"),
                 "'NET' is not a connection"));
  CHECK(
      contains(refused_topology("GPU0 GPU1 CPU Affinity\nGPU0 SYS X 0-1\nGPU1 X SYS 0-1\n"), "no X in its own column"));
  CHECK(contains(refused_topology("hello"), "no header that begins with GPU0"));
  CHECK_FALSE(is_topo_matrix("hello"));
}

TEST_CASE("seven measured servers with their topologies: the same buses as from concurrent copies, kinds by name") {
  const auto folder = test::reference_data("formats/nvbandwidth");
  if (!folder) return test::report_skipped("no reference data");
  struct Server {
    const char* name;
    const char* topology;
    Groups bridges;  // empty on flat machines
    const char* kind;
  };
  const Groups pairs{{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  for (const Server& server : {Server{"aws__p3.16xlarge", "aws_p3.16xlarge", {}, "V100-SXM2-16GB"},
                               Server{"aws__p3.8xlarge", "aws_p3.8xlarge", {}, "V100-SXM2-16GB"},
                               Server{"aws__g5.12xlarge", "aws_g5.12xlarge", {}, ""},
                               Server{"aws__g7e.48xlarge", "aws_g7e.48xlarge", pairs, ""},
                               Server{"gcp__a2-highgpu-8g", "gcp_a2-highgpu-8g", {}, "A100-SXM4-40GB"},
                               Server{"gcp__a3-highgpu-8g", "gcp_a3-highgpu-8g", pairs, "H100-SXM5-80GB"},
                               Server{"gcp__a3-ultragpu-8g", "gcp_a3-ultragpu-8g", pairs, "H200-SXM5-141GB"}}) {
    CAPTURE(server.name);
    const std::string file = std::string{server.topology} + "__lstopo.gz";
    const GpuTopology topology = parse_gpu_topology(read_input(*folder / "topology" / file), file);
    CHECK(topology.bridges == server.bridges);
    const std::string text = read_input(*folder / (std::string{server.name} + ".json.gz"));
    const BandwidthReport with = parse_nvbandwidth(text, server.name, "", &topology);
    const BandwidthReport without = parse_nvbandwidth(text, server.name);
    CHECK(with.buses == without.buses);
    CHECK(with.cluster.devices.front().kind == server.kind);
    CHECK(with.pair_error < 1e-9);
  }
}

TEST_CASE("a topology is of the same machine, and its switches are buses where they slow copies down") {
  const std::string host =
      R"({"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["11", "11", "11", "11"]]},
    {"name": "device_to_host_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["12", "12", "12", "12"]]})";
  const auto file = [&](const std::string& at_once) {
    return R"({"nvbandwidth": {"testcases": [)" + host +
           R"(, {"name": "all_to_host_memcpy_ce", "status": "Passed", "bandwidth_matrix": [)" + at_once + "]}]}}";
  };
  const GpuTopology topology = parse_gpu_topology(topology_seed("lstopo.xml"), "lstopo.xml");
  const auto buses = [&](const std::string& at_once) {
    return parse_nvbandwidth(file(at_once), "box.json", "V100", &topology).buses;
  };
  CHECK(buses(R"(["6", "6", "12", "12"])") == Groups{{0, 1}});
  CHECK(buses(R"(["12", "12", "6", "6"])").empty());            // these two do not share a switch
  CHECK(buses(R"(["9", "9", "12", "12"])") == Groups{{0, 1}});  // 1.33 times slower: not a whole number, but shared
  const GpuTopology other = parse_gpu_topology(topology_seed("topo.txt"), "topo.txt");
  CHECK_THROWS_WITH_AS(parse_nvbandwidth(file(R"(["6", "6", "12", "12"])"), "box.json", "V100", &other),
                       doctest::Contains("the topology has 3 GPUs, but the measurement has 4"), InputError);
}
