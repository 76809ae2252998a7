#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <sstream>
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
  CHECK(json_of(minizinc)["format"] == "trainyard-result/1");
  CHECK(json_of(minizinc)["to"] == "minizinc");
  CHECK(json_of(minizinc)["warnings"].empty());
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
  for (const std::string how : {"pesto:10", "merge:5", "hsdag:5", "groups"}) {
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
  CHECK(contains(run_trainyard(folder.path(), "import lenet --kind V100").error,
                 "--kind is only for machines and traces"));
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
                 "the topology has 4 GPUs, but the measurement has 3"));
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
  CHECK(contains(placed.error, "the calibration has only collectives"));
  CHECK(run_trainyard(folder.path(), "import lenet --collective all-gather").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "import " + log + " --kind V100").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "import " + log + " -o nccl.toml").exit_code == 2);
}

TEST_CASE("a schedule is written as a device map, read in its place, and takes the time that was said") {
  const TemporaryFolder folder;
  const std::string of = "resnet18:batch=8 --cluster 2xV100";
  write_text(folder.path() / "half.json",
             R"({"stem": 0, "layer1": 0, "layer2": 0, "layer3": 1, "layer4": 1, "head": 1})");
  const auto simulated = run_trainyard(folder.path(), "simulate " + of + " --schedule half.json --json");
  REQUIRE(simulated.exit_code == 0);
  const auto same =
      run_trainyard(folder.path(), "export " + of + " --schedule half.json --to device-map -o map.json --json");
  REQUIRE(same.exit_code == 0);
  CHECK(json_of(same)["makespan_ns"] == json_of(simulated)["makespan_ns"]);
  CHECK(json_of(same)["read_back_ns"] == json_of(simulated)["makespan_ns"]);
  CHECK(json_of(same)["lost"].empty());

  // A schedule names its model and cluster.
  REQUIRE(run_trainyard(folder.path(), "place " + of + " --placer heft -o heft.json").exit_code == 0);
  const auto lossy = run_trainyard(folder.path(), "export heft.json --to device-map -o heft-map.json");
  CHECK(lossy.exit_code == 0);
  CHECK(contains(lossy.error, "lost: the order of the ops on a device"));
  CHECK(contains(lossy.output, "read back"));
  CHECK(run_trainyard(folder.path(), "export heft.json --to chakra -o run.et").exit_code == 0);
  CHECK(std::filesystem::exists(folder.path() / "run.1.et"));
}

TEST_CASE("export, check and diff warn where a schedule's step takes another time than where it was placed") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& words) { return run_trainyard(folder.path(), words); };
  REQUIRE(run("place lenet --cluster 2xV100 --placer round-robin --scale compute=2 -o s.json").exit_code == 0);
  for (const std::string words : {"export s.json --to device-map -o m.json", "check s.json", "diff s.json s.json"}) {
    CAPTURE(words);
    const auto other = run(words);
    CHECK(other.exit_code == 0);
    CHECK(contains(other.error, "warning: s.json: its step takes"));
    CHECK(contains(other.error, "give the same options as then"));
    CHECK_FALSE(contains(run(words + " --scale compute=2").error, "its step takes"));
  }
  CHECK(run("check s.json --scale compute=2").error.empty());
  const auto missing = run("export nothing.json --model lenet --cluster 2xV100 --to device-map -o m.json");
  CHECK(missing.exit_code == 3);
  CHECK(contains(missing.error, "no file 'nothing.json'"));
}

TEST_CASE("tf32 is how devices multiply: graph files take it, and import says that they do not carry it") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& words) { return run_trainyard(folder.path(), words); };
  const auto imported = run("import gpt2:batch=2,layers=1 --precision tf32 -o g.json");
  CHECK(contains(imported.error, "give it again with the graph file"));
  const std::string with = " --precision tf32 --cluster 2xH100 --placer single --json";
  CHECK(json_of(run("simulate g.json" + with))["makespan_ns"] ==
        json_of(run("simulate gpt2:batch=2,layers=1" + with))["makespan_ns"]);
}

TEST_CASE("a plan is written for torch, Megatron and DeepSpeed, and read in its place") {
  const TemporaryFolder folder;
  const std::string of = "gpt2:batch=8,layers=4 --cluster 4xV100";
  const auto step = [&](const std::string& file) {
    return json_of(run_trainyard(folder.path(), "simulate " + of + " --plan " + file + " --json"))["makespan_ns"];
  };
  write_text(folder.path() / "plan.json", R"({"format": "trainyard-plan/1", "data": 2, "microbatch": 1,
    "stages": [{}, {"from": "h.2"}]})");
  write_text(folder.path() / "zero.json", R"({"format": "trainyard-plan/1", "data": 4, "microbatch": 1, "zero": 1})");
  for (const std::string words : {"torch-pipelining plan.json out.json", "megatron plan.json out.sh",
                                  "megatron zero.json zero.sh", "deepspeed zero.json ds.json"}) {
    CAPTURE(words);
    std::istringstream each{words};
    std::string to, plan, out;
    each >> to >> plan >> out;
    const auto result =
        run_trainyard(folder.path(), "export " + of + " --plan " + plan + " --to " + to + " -o " + out + " --json");
    REQUIRE(result.exit_code == 0);
    CHECK(json_of(result)["lost"].empty());
    CHECK(json_of(result)["read_back_ns"] == json_of(result)["makespan_ns"]);
    CHECK(step(out) == step(plan));
  }
  CHECK(std::filesystem::exists(folder.path() / "out.csv"));
  const auto stages = run_trainyard(folder.path(),
                                    "export plan.json --model gpt2:batch=8,layers=4 --cluster 4xV100 "
                                    "--to deepspeed -o ds2.json");
  CHECK(stages.exit_code == 0);
  CHECK(contains(stages.error, "lost: the 2 stages"));

  const auto network = run_trainyard(folder.path(),
                                     "export resnet18:batch=8 --cluster 4xV100 --plan out.sh --to megatron "
                                     "-o other.sh");
  CHECK(network.exit_code == 3);
  CHECK(contains(network.error, "numbered blocks"));
  write_text(folder.path() / "three.json", R"({"format": "trainyard-plan/1", "data": 3, "microbatch": 1})");
  for (const std::string& words :
       {"simulate " + of + " --plan three.json", "export " + of + " --plan three.json --to megatron -o three.sh"}) {
    const auto uneven = run_trainyard(folder.path(), words);
    CHECK(uneven.exit_code == 3);
    CHECK(contains(uneven.error, "8 samples cannot be divided equally among 3 replicas"));
    CHECK(contains(uneven.error, "three.json:1:40: error[plan]"));
  }
  CHECK(run_trainyard(folder.path(), "export " + of + " --to megatron -o x.sh").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "export " + of + " --plan plan.json --to device-map -o x.json").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "export " + of + " --plan plan.json --to torch-pipelining -o x.csv").exit_code ==
        2);
}

TEST_CASE("traces that are cut short or damaged in their gzip data are refused by the name of the file") {
  const TemporaryFolder folder;
  const std::string seeds = (source_dir() / "test/fuzz/seeds/foreign").string(), here = folder.path().string();
  REQUIRE(run_command(fmt::format("cd '{}' && gzip -c '{}/trace.json' > et.json.gz && gzip -c '{}/kineto.json' > "
                                  "kineto.json.gz",
                                  here, seeds, seeds))
              .exit_code == 0);
  CHECK(run_trainyard(folder.path(), "import et.json.gz").exit_code == 0);
  for (const std::string of : {"et", "kineto"}) {
    const std::string whole = read_text(folder.path() / (of + ".json.gz"));
    std::string wrong = whole;
    for (std::size_t i = whole.size() - 8; i < whole.size() - 4; ++i) wrong[i] = static_cast<char>(wrong[i] ^ 0x55);
    const std::string words = of == "et" ? "import " : "import et.json.gz --times ";
    for (const auto& [text, says] :
         {std::pair<std::string, const char*>{whole.substr(0, whole.size() - 12), "is cut short"},
          {whole + "x", "has something after its gzip data"},
          {wrong, "is damaged: incorrect data check"}}) {  // wrong checksum
      write_text(folder.path() / "bad.json.gz", text);
      const auto refused = run_trainyard(folder.path(), words + "bad.json.gz");
      CHECK(refused.exit_code == 3);
      CHECK_MESSAGE(contains(refused.error, says), refused.error);
      CHECK(contains(refused.error, "bad.json.gz"));
    }
  }
}

TEST_CASE("a .pt2 archive is the program in it; its weights are passed over") {
  const TemporaryFolder folder;
  const std::filesystem::path here = folder.path();
  std::filesystem::create_directories(here / "archive/models");
  std::filesystem::create_directories(here / "archive/data");
  std::filesystem::copy_file(source_dir() / "test/fuzz/seeds/foreign/exported.json",
                             here / "archive/models/model.json");
  write_text(here / "archive/data/weights", std::string(100'000, 'w'));
  REQUIRE(run_command("cd '" + here.string() + "' && python3 -m zipfile -c model.pt2 archive").exit_code == 0);
  const auto plain = run_trainyard(here, "import archive/models/model.json --json -o plain.json");
  const auto packed = run_trainyard(here, "import model.pt2 --json -o packed.json");
  REQUIRE(plain.exit_code == 0);
  REQUIRE(packed.exit_code == 0);
  CHECK(json_of(packed)["ops"] == json_of(plain)["ops"]);
  CHECK(nlohmann::json::parse(read_text(here / "packed.json"))["ops"] ==
        nlohmann::json::parse(read_text(here / "plain.json"))["ops"]);

  const std::string whole = read_text(here / "model.pt2");
  const auto refused = [&](const std::string& bytes) {
    write_text(here / "bad.pt2", bytes);
    const auto result = run_trainyard(here, "import bad.pt2");
    CHECK(result.exit_code == 3);
    return result.error;
  };
  CHECK(contains(refused(whole.substr(0, whole.size() / 2)), "bad.pt2' is cut short or damaged"));
  CHECK(contains(refused("no archive"), "'bad.pt2' is not a torch.export archive"));
  std::string wrong = whole;
  const std::size_t local = wrong.find("archive/models/model.json") + 60;
  wrong[local] = static_cast<char>(wrong[local] ^ 0x55);
  CHECK(contains(refused(wrong), "is cut short or damaged"));
  REQUIRE(
      run_command("cd '" + here.string() + "' && rm bad.pt2 && python3 -m zipfile -c bad.pt2 archive/data").exit_code ==
      0);
  CHECK(contains(run_trainyard(here, "import bad.pt2").error,
                 "does not contain models/model.json or serialized_exported_program"));
}

TEST_CASE("a trace of Kineto alone, and an archive, are refused by name with the remedy") {
  const TemporaryFolder folder;
  const std::string kineto = (source_dir() / "test/fuzz/seeds/foreign/kineto.json").string();
  const auto alone = run_trainyard(folder.path(), "import '" + kineto + "'");
  CHECK(alone.exit_code == 3);
  CHECK(contains(alone.error, "is a Kineto trace"));
  CHECK(contains(alone.error, "--times"));
  const auto archive = run_trainyard(folder.path(), "import traces.tar.gz");
  CHECK(archive.exit_code == 2);
  CHECK(contains(archive.error, "tar xf traces.tar.gz"));
  const auto missing = run_trainyard(folder.path(), "simulate ./lenet --cluster 2xV100");
  CHECK(missing.exit_code == 3);
  CHECK(contains(missing.error, "there is no file './lenet'"));
  CHECK(contains(missing.error, "the built-in network is 'lenet'"));
}

TEST_CASE("the plan of a graph file, which does not say its batch, says for how many samples it is") {
  const TemporaryFolder folder;
  REQUIRE(run_trainyard(folder.path(), "import gpt2:batch=8,layers=4 -o graph.json").exit_code == 0);
  const auto placed =
      run_trainyard(folder.path(),
                    "place graph.json --cluster 2xV100 --placer megatron --plan-out plan.json -o schedule.json --json");
  REQUIRE(placed.exit_code == 0);
  CHECK(contains(placed.error + placed.output, "the plan is for 32"));  // 16 samples for each of two devices
  CHECK(nlohmann::json::parse(read_text(folder.path() / "plan.json"))["batch"] == 32);
  const auto same = run_trainyard(
      folder.path(), "export plan.json --model graph.json --cluster 2xV100 --to megatron -o arguments.sh --json");
  REQUIRE(same.exit_code == 0);
  CHECK(json_of(same)["makespan_ns"] == json_of(placed)["makespan_ns"]);
  CHECK(json_of(same)["read_back_ns"] == json_of(placed)["makespan_ns"]);
}

TEST_CASE("a recipe is of a network that says what its ops compute, and has the schedules that are asked for") {
  const TemporaryFolder folder;
  write_text(folder.path() / "toy.json", kToyGraph);
  const std::string words = "export lenet:batch=2 --cluster 2xcpu-core --to recipe -o recipe.json ";
  CHECK(run_trainyard(folder.path(), words + "--rank 3").exit_code == 0);
  CHECK(nlohmann::json::parse(read_text(folder.path() / "recipe.json"))["schedules"].size() == 3);
  REQUIRE(run_trainyard(folder.path(), "place lenet:batch=2 --cluster 2xcpu-core --no-splits -o s.json").exit_code ==
          0);
  CHECK(run_trainyard(folder.path(), "export s.json --model lenet:batch=2 --to recipe -o recipe.json").exit_code == 0);
  const auto graph = run_trainyard(folder.path(), "export toy.json --cluster 2xV100 --to recipe -o recipe.json");
  CHECK(graph.exit_code == 3);
  CHECK(contains(graph.error, "does not say what its ops compute"));
  const auto other = run_trainyard(folder.path(), "export toy.json --cluster 2xV100 --rank 2 -o toy.lp");
  CHECK(other.exit_code == 2);
  CHECK(contains(other.error, "are only for --to recipe"));
  const std::string validate = "validate lenet:batch=2 --cluster 2xcpu-core ";
  CHECK(run_trainyard(folder.path(), validate + "--backend recorded").exit_code == 2);
  CHECK(run_trainyard(folder.path(), validate + "--runs recipe.json").exit_code == 2);
  CHECK(contains(run_trainyard(folder.path(), validate + "--backend recorded --runs recipe.json").error,
                 "trainyard-runs/1"));
}
