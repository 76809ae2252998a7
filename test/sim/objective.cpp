#include <doctest/doctest.h>

#include <string>

#include "sim/program.hpp"

using namespace trainyard::test;
using nlohmann::json;

namespace {

/// A chain of 3, 6 and 3 ms with .5 ms an edge, on two accelerators and a CPU that is ten times slower. A node needs 5
/// bytes, and an accelerator holds 10.
const std::string kWorkload = R"({"maxSizePerFPGA": 10.5, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
  {"id": 0, "supportedOnFpga": 1, "cpuLatency": 30, "fpgaLatency": 3, "isBackwardNode": 0, "colorClass": 0, "size": 5},
  {"id": 1, "supportedOnFpga": 1, "cpuLatency": 60, "fpgaLatency": 6, "isBackwardNode": 0, "colorClass": 1, "size": 5},
  {"id": 2, "supportedOnFpga": 1, "cpuLatency": 30, "fpgaLatency": 3, "isBackwardNode": 0, "colorClass": 2, "size": 5}],
  "edges": [{"sourceId": 0, "destId": 1, "cost": 0.5}, {"sourceId": 1, "destId": 2, "cost": 0.5}]})";

}  // namespace

TEST_CASE("place --objective max-load: 9.5 ms contiguous, 7 ms not, on the workload's own devices") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kWorkload);
  const std::string place = "place chain.json --objective max-load --json ";
  const auto contiguous = run_trainyard(folder.path(), place + "--placer dp-ideals -o s.json");
  REQUIRE(contiguous.exit_code == 0);  // by the published rule 10 bytes fit, although outputs take megabytes
  const json object = json_of(contiguous);
  CHECK(object["objective"] == "max-load");
  CHECK(object["value"] == 9'500'000);  // 3 + 6 + .5
  CHECK(object["max_load_ns"] == 9'500'000);
  CHECK(object["fits"] == true);
  CHECK(object["lower_bound_ns"] == 6'000'000);  // the longest op; 12 ms over 2 accelerators + 1/10 is less
  CHECK(object["lower_bound"] == "load-op");
  CHECK(object["optimal"] == false);
  CHECK(object["gap"].get<double>() > 0);
  const json again =
      json_of(run_trainyard(folder.path(), "simulate chain.json --cluster chain.json --schedule s.json --json"));
  CHECK(again["makespan_ns"] == object["makespan_ns"]);
  CHECK(again["max_load_ns"] == 9'500'000);

  const json free = json_of(run_trainyard(folder.path(), place + "--cluster chain.json"));
  CHECK(free["placer"] == "load-search");
  CHECK(free["value"] == 7'000'000);  // {3, 3} with .5 in and .5 out; {6} with the same transfers
  // auto counts memory by the workload's rule. By the simulator's, with the outputs' megabytes, no placement fits 10
  // bytes.
  const json searched = json_of(run_trainyard(folder.path(), place + "--placer auto"));
  CHECK(searched["value"] == 7'000'000);
  CHECK(searched["fits"] == true);
  CHECK(run_trainyard(folder.path(), "place chain.json --objective max-load").output.find("largest load") !=
        std::string::npos);
}

TEST_CASE("place without --objective makes the step short, and says so") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kWorkload);
  const json object = json_of(run_trainyard(folder.path(), "place chain.json --json --objective makespan"));
  CHECK(object["objective"] == "makespan");
  CHECK(object["value"] == object["makespan_ns"]);
  const auto wrong = run_trainyard(folder.path(), "place chain.json --objective max-lod");
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.error.find("max-load") != std::string::npos);
}
