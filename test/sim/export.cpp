#include <doctest/doctest.h>

#include <string>

#include "io/bad_inputs.hpp"
#include "sim/program.hpp"

using namespace trainyard::test;

TEST_CASE("export writes an integer program or a MiniZinc model by the name of the file") {
  const TemporaryFolder folder;
  write_text(folder.path() / "toy.json", kToyGraph);
  write_text(folder.path() / "toy.toml", kToyCluster);
  const std::string words = "export toy.json --cluster toy.toml ";
  const auto lp = run_trainyard(folder.path(), words + "-o toy.lp");
  CHECK(lp.exit_code == 0);
  CHECK(contains(lp.output, "columns"));
  const std::string text = read_text(folder.path() / "toy.lp");
  CHECK(text.starts_with("\\ Placement and order of"));
  CHECK(text.ends_with("End\n"));

  const auto minizinc = run_trainyard(folder.path(), words + "-o toy.mzn --json");
  CHECK(minizinc.exit_code == 0);
  CHECK(json_of(minizinc)["format"] == "minizinc");
  CHECK(json_of(minizinc)["limit_ns"].get<std::int64_t>() > 0);
  CHECK(contains(read_text(folder.path() / "toy.mzn"), "solve minimize makespan;"));

  const auto neither = run_trainyard(folder.path(), words + "-o toy.txt");
  CHECK(neither.exit_code == 2);
  CHECK(contains(neither.error, "model.mzn"));
  CHECK(run_trainyard(folder.path(), words).exit_code == 2);
  CHECK(file_count(folder.path()) == 4);
}

TEST_CASE("a placer sees a smaller graph under --coarsen, and the schedule is of all ops") {
  const TemporaryFolder folder;
  const std::string place = "place lenet:batch=8 --cluster 2xV100 --json ";
  for (const std::string how : {"pesto:10", "merge:5", "groups"}) {
    CAPTURE(how);
    const auto result = run_trainyard(folder.path(), place + "--coarsen " + how + " -o s.json");
    REQUIRE(result.exit_code == 0);
    const auto again = run_trainyard(folder.path(), "simulate lenet:batch=8 --cluster 2xV100 --schedule s.json --json");
    CHECK(json_of(again)["makespan_ns"] == json_of(result)["makespan_ns"]);
  }
  const auto wrong = run_trainyard(folder.path(), place + "--coarsen pesto");
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.output + wrong.error, "pesto:200"));
  const auto compared = run_trainyard(
      folder.path(), "compare lenet:batch=8 --cluster 2xV100 --placers heft,single --coarsen pesto:8 --json");
  CHECK(compared.exit_code == 0);
  CHECK(json_of(compared)["results"].size() == 2);
}

TEST_CASE("a measured machine is imported as a cluster file, on which networks are simulated") {
  const TemporaryFolder folder;
  const std::string measured = (source_dir() / "test/fuzz/seeds/nvbandwidth/links.json").string();
  const auto run = run_trainyard(folder.path(), "import " + measured + " --kind V100 -o box.toml --json");
  REQUIRE(run.exit_code == 0);
  CHECK(json_of(run)["gpus"] == 4);
  CHECK(json_of(run)["buses"] == nlohmann::json::parse("[[2, 3]]"));
  CHECK(json_of(run)["routes"].size() == 12);
  const auto simulated = run_trainyard(folder.path(), "simulate lenet --cluster box.toml --placer etf --json");
  CHECK(json_of(simulated)["cluster"] == "links");
  CHECK(contains(run_trainyard(folder.path(), "import " + measured + " -o box.json").error, "name it box.toml"));
  CHECK(contains(run_trainyard(folder.path(), "import lenet --kind V100").error, "--kind is that of a machine's GPUs"));
}

TEST_CASE("a measured machine has its topology beside it; a topology alone is no cluster") {
  const TemporaryFolder folder;
  const std::string texts = (source_dir() / "test/fuzz/seeds/machine_texts").string();
  const auto run =
      run_trainyard(folder.path(), "import " + texts + "/p2p.txt --topology " + texts + "/topo.txt -o box.toml --json");
  REQUIRE(run.exit_code == 0);
  CHECK(json_of(run)["kind"] == "V100-SXM2-16GB");
  CHECK(json_of(run)["pair_error"] < 1e-9);
  CHECK(json_of(run)["peers_both_ways"] > 0.99);
  CHECK(run_trainyard(folder.path(), "simulate lenet --cluster box.toml --placer etf").exit_code == 0);
  for (const char* file : {"/topo.txt", "/lstopo.xml"}) {
    const auto alone = run_trainyard(folder.path(), "import " + texts + file);
    CHECK(alone.exit_code == 3);
    CHECK(contains(alone.error, "a topology has no bandwidths"));
  }
  CHECK(contains(run_trainyard(folder.path(), "import " + texts + "/p2p.txt --topology " + texts + "/lstopo.xml").error,
                 "the topology has 4 GPUs, the measurement 3"));
  CHECK(run_trainyard(folder.path(), "import lenet --topology " + texts + "/topo.txt").exit_code == 2);
}

TEST_CASE("logs of nccl-tests become one calibration, which plans take their sums of gradients from") {
  const TemporaryFolder folder;
  const std::string log = (source_dir() / "test/fuzz/seeds/nccl_tests/all_reduce.log").string();
  const auto run = run_trainyard(folder.path(), "import " + log + " -o nccl.json --json");
  REQUIRE(run.exit_code == 0);
  CHECK(json_of(run)["collective"] == "all-reduce");
  CHECK(json_of(run)["ranks"] == 4);
  const std::string other = (source_dir() / "test/fuzz/seeds/nccl_tests/all_gather.log").string();
  CHECK(contains(run_trainyard(folder.path(), "import " + other).error, "--collective all-gather"));
  const std::string add = " --collective all-gather --calibration nccl.json -o both.json";
  CHECK(run_trainyard(folder.path(), "import " + other + add).exit_code == 0);
  const auto both = nlohmann::json::parse(read_text(folder.path() / "both.json"));
  CHECK(both["collectives"].size() == 2);
  const auto placed = run_trainyard(folder.path(), "place lenet --cluster 4xV100 --placer plan --costs both.json");
  CHECK(placed.exit_code == 0);
  CHECK(contains(placed.error, "of collectives alone"));
  CHECK(run_trainyard(folder.path(), "import lenet --collective all-gather").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "import " + log + " --kind V100").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "import " + log + " -o nccl.toml").exit_code == 2);
}
