#include "trainyard/io/foreign/dnn_partitioning.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

const std::string kSmall = R"({"maxSizePerFPGA": 100.0, "maxFPGAs": 2, "maxCPUs": 1,
  "nodes": [{"id": 7, "name": "a", "supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.5, "isBackwardNode": 0,
             "colorClass": 3, "size": 40.0},
            {"id": 9, "supportedOnFpga": false, "cpuLatency": 2, "fpgaLatency": 0, "isBackwardNode": true,
             "colorClass": null, "size": 0}],
  "edges": [{"sourceId": 7, "destId": 9, "cost": 0.5, "size": 12}]})";

std::string error_code(const std::string& text) {
  return test::code_of([&] { parse_dnn_workload(text, "w.json"); });
}

}  // namespace

TEST_CASE("a workload has its nodes, its edges by position, and its devices") {
  const DnnWorkload workload = parse_dnn_workload(kSmall, "w.json");
  CHECK(workload.accelerators == 2);
  CHECK(workload.cpus == 1);
  CHECK(workload.accelerator_memory == Bytes{100});
  REQUIRE(workload.nodes.size() == 2);
  CHECK(workload.nodes[0].color == 3);
  CHECK(workload.nodes[0].cost == 0.5);
  CHECK_FALSE(workload.nodes[1].on_accelerator);
  CHECK(workload.nodes[1].backward);
  CHECK_FALSE(workload.nodes[1].color);
  CHECK(workload.edges == std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}});
}

TEST_CASE("as a graph and a cluster an accelerator runs what it supports and its link takes the cost") {
  const DnnWorkload workload = parse_dnn_workload(kSmall, "w.json");
  const Problem problem{workload_graph(workload), make_cluster(workload_cluster(workload))};
  CHECK(problem.graph().name(OpId{1}) == "n9");
  CHECK(problem.duration(OpId{0}, DeviceId{1}) == Nanoseconds{1'500'000});
  CHECK(problem.duration(OpId{0}, DeviceId{2}) == Nanoseconds{10'000'000});
  CHECK_FALSE(problem.can_run(OpId{1}, DeviceId{0}));
  CHECK(problem.transfer_time(TensorId{0}, DeviceId{0}, DeviceId{2}) == Nanoseconds{500'000});  // 0.5 ms
  CHECK(problem.cluster().device(DeviceId{0}).memory == Bytes{100});
  CHECK_FALSE(problem.cluster().device(DeviceId{2}).memory);
}

TEST_CASE("a workload has at most as many devices as a cluster with routes") {
  CHECK(error_code(test::replaced(kSmall, "\"maxCPUs\": 1", "\"maxCPUs\": 2046")) == "");
  CHECK(error_code(test::replaced(kSmall, "\"maxCPUs\": 1", "\"maxCPUs\": 2047")) == "too-large");
  CHECK(error_code(test::replaced(kSmall, "\"maxCPUs\": 1", "\"maxCPUs\": 4611686018427387904")) == "too-large");
}

TEST_CASE("what is wrong with a workload is named") {
  CHECK(error_code("{}") == "missing-key");
  CHECK(error_code("[1]") != "");
  CHECK(error_code(test::replaced(kSmall, "\"id\": 9", "\"id\": 7")) == "duplicate-name");
  CHECK(error_code(test::replaced(kSmall, "\"destId\": 9", "\"destId\": 8")) == "unknown-node");
  CHECK(error_code(test::replaced(kSmall, "1.5", "-1.5")) == "negative-time");
  CHECK(error_code(test::replaced(kSmall, "\"size\": 40.0", "\"size\": -40.0")) == "negative-bytes");
  CHECK(error_code(test::replaced(kSmall, "\"size\": 12}",
                                  "\"size\": 12}, {\"sourceId\": 7, \"destId\": 9, \"cost\": 0.6}")) == "edge-cost");
}

TEST_CASE("the published workloads are read, and placed within their memory") {
  const auto folder = test::reference_data("dnn-partitioning/throughput-inputs/LayerGraphs");
  if (!folder) return test::report_skipped("no workloads");
  for (const char* name : {"bert24_training.json", "gnmt_inference.json", "resnet50_training.json"}) {
    CAPTURE(name);
    const DnnWorkload workload = read_dnn_workload(*folder / name);
    CHECK(workload.accelerators == 6);
    const Problem problem{workload_graph(workload), make_cluster(workload_cluster(workload))};
    CHECK(problem.op_count() == workload.nodes.size());
    const Schedule schedule = find_placer("heft").place(problem, {});
    CHECK(simulate(problem, schedule).fits());
  }
}
