#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/program.hpp"
#include "support/support.hpp"

using namespace trainyard::test;

TEST_CASE("a network that fits on no GPU is placed beside its host, and simulated from the file") {
  const TemporaryFolder folder;
  const std::string network = "resnet50:batch=224 --cluster cpu-v100 ";
  const auto placed =
      run_trainyard(folder.path(), "place " + network + "--placer offload --evaluations 40 -o s.json --json");
  REQUIRE(placed.exit_code == 0);
  const auto again = run_trainyard(folder.path(), "simulate " + network + "--schedule s.json --json");
  REQUIRE(again.exit_code == 0);
  CHECK(json_of(again)["makespan_ns"] == json_of(placed)["makespan_ns"]);
  CHECK(contains(run_trainyard(folder.path(), "simulate " + network + "--schedule s.json").output, "offloaded graph"));
  const auto without = run_trainyard(folder.path(), "place resnet50:batch=1024 --cluster 1xV100 --placer offload");
  CHECK(without.exit_code == 1);
  CHECK(contains(without.error, "error[no-host]"));
}

TEST_CASE("a step that computes again and waits on a host is validated on the rewritten graph") {
  const TemporaryFolder folder;
  REQUIRE(
      run_trainyard(folder.path(), "place lenet:batch=8 --cluster 2xcpu-core --placer single -o s.json").exit_code ==
      0);
  auto schedule = nlohmann::json::parse(read_text(folder.path() / "s.json"));
  schedule["splits"] = {
      {{"recompute", {"conv1/conv", "conv1/relu"}}},
      {{"offload", "conv1/max_pool.out"}, {"away_before", "fc1/gemm"}, {"back_after", "fc3/gemm/grad"}}};
  for (const char* op : {"conv1/conv/again", "conv1/relu/again"}) schedule["placement"][op] = "cpu0";
  for (const char* op : {"conv1/max_pool.out/away", "conv1/max_pool.out/back"}) schedule["placement"][op] = "cpu1";
  write_text(folder.path() / "s.json", schedule.dump());
  const auto ran = run_trainyard(folder.path(), "validate s.json --model lenet:batch=8 --backend recording --json");
  REQUIRE(ran.exit_code == 0);
  CHECK(json_of(ran)["predicted_ns"] == json_of(ran)["measured_ns"]["p50"]);
}
