#include <doctest/doctest.h>

#include <fstream>

#include "sim/program.hpp"

using namespace trainyard::test;

TEST_CASE("a PipeDream profile and a dnn-partitioning workload are models, the workload its own cluster") {
  const TemporaryFolder folder;
  std::ofstream{folder.path() / "two.graph.txt"}
      << "a -- Conv2d(3, 64) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=100.0, "
         "parameter_size=8.000\n"
         "b -- Linear() -- forward_compute_time=0.500, backward_compute_time=0.500, activation_size=4.0, "
         "parameter_size=8.000\n"
         "\ta -- b\n";
  const auto profile = run_trainyard(folder.path(), "simulate two.graph.txt --cluster 2xV100 --placer single --json");
  REQUIRE(profile.exit_code == 0);
  CHECK(json_of(profile)["makespan_ns"] == 4'000'000);  // forward 1 + 0.5, backward 0.5 + 2 ms

  std::ofstream{folder.path() / "work.json"} << R"({"maxSizePerFPGA": 1e9, "maxFPGAs": 1, "maxCPUs": 1, "nodes": [
           {"id": 1, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 2, "isBackwardNode": 0, "size": 40},
           {"id": 2, "supportedOnFpga": 0, "cpuLatency": 3, "fpgaLatency": 0, "isBackwardNode": 0, "size": 0}],
           "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}]})";
  const auto workload = run_trainyard(folder.path(), "simulate work.json --cluster work.json --placer heft --json");
  REQUIRE(workload.exit_code == 0);
  CHECK(json_of(workload)["makespan_ns"] == 5'500'000);  // 2 + 0.5 + 3 ms
}
