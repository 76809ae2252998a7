#include <doctest/doctest.h>

#include "sim/program.hpp"

using namespace trainyard::test;

namespace {

/// One layer: an op of 1000 ns that reads the weight, and the weight's update.
const char* const kLayerGraph = R"({"format": "trainyard-graph/1", "name": "layer", "ops": [
 {"name": "f", "type": "Conv", "colocate": "w", "parameter_bytes": 100, "times_ns": {"gpu": 1000},
  "outputs": [{"name": "t", "bytes": 10}]},
 {"name": "u", "type": "Update", "phase": "update", "colocate": "w", "inputs": ["t"], "times_ns": {"gpu": 500},
  "outputs": []}]})";

void write_layer_inputs(const TemporaryFolder& folder) {
  write_text(folder.path() / "layer.json", kLayerGraph);
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
}

TEST_CASE("simulate --steps tells the steady step time") {
  const TemporaryFolder folder;
  write_layer_inputs(folder);
  const std::string run = "simulate layer.json --cluster pair.toml --placer single --steps 4 ";
  const auto json = json_of(run_trainyard(folder.path(), run + "--json --trace t.json --report r.html -o all.json"));
  CHECK(json["makespan_ns"] == 1500);  // one step: 1000 + 500
  const auto& steps = json["steps"];
  CHECK(steps["end_ns"] == nlohmann::json({1500, 3000, 4500, 6000}));
  CHECK(steps["increment_ns"] == nlohmann::json({1500, 1500, 1500}));
  CHECK(steps["steady_step_ns"] == 1500);
  CHECK(steps["steady_from"] == "periodic");
  CHECK(steps["period"] == 1);
  CHECK(steps["ties"] == 3);
  CHECK(steps["devices"][0]["peak_bytes"] == 110);
  CHECK(contains(read_text(folder.path() / "all.json"), "\"u@4\""));
  CHECK(contains(read_text(folder.path() / "t.json"), "u@4"));
  const auto text = run_trainyard(folder.path(), run);
  CHECK(contains(text.output, "steady step time"));
  CHECK(contains(text.output, "tied by 3 update dependencies"));
}

TEST_CASE("simulate --noise gives the same bytes for any number of threads") {
  const TemporaryFolder folder;
  write_layer_inputs(folder);
  const std::string run = "simulate layer.json --cluster pair.toml --placer single --samples 50 --noise ";
  const auto noise = [&](const std::string& words) {
    return json_of(run_trainyard(folder.path(), run + words + " --json"))["noise"];
  };
  const auto one = noise("5% --threads 1");
  CHECK(one["samples"] == 50);
  CHECK(one["p95_ns"] >= one["p50_ns"]);
  CHECK(one["deviation"] > 0);
  CHECK(noise("5% --threads 3") == one);
  CHECK(noise("Conv=5%,Update=5%") == one);
  CHECK(noise("5% --seed 2") != one);
  CHECK(noise("0%")["p99_ns"] == 1500);
  CHECK(contains(run_trainyard(folder.path(), run + "5%").output, "with noise"));
}

TEST_CASE("simulate --steps with --noise tells how the time per step scatters") {
  const TemporaryFolder folder;
  write_layer_inputs(folder);
  const std::string run = "simulate layer.json --cluster pair.toml --placer single --steps 5 --samples 50 --noise ";
  const auto noise = [&](const std::string& words) {
    return json_of(run_trainyard(folder.path(), run + words + " --json"))["steps"]["noise"];
  };
  // On one device every step takes 1000 + 500, without overlap.
  CHECK(noise("0%")["p50_ns"] == 1500);
  CHECK(noise("0%")["deviation"] == 0);
  const auto one = noise("5% --threads 1");
  CHECK(one["samples"] == 50);
  CHECK(one["deviation"] > 0);
  CHECK(noise("5% --threads 3") == one);
  // The mean of three steps has a smaller deviation than one step.
  const auto json = json_of(run_trainyard(folder.path(), run + "5% --json"));
  CHECK(json["noise"]["deviation"] > one["deviation"]);
}

TEST_CASE("compare --noise tells how often a schedule beats the best") {
  const TemporaryFolder folder;
  write_layer_inputs(folder);
  const std::string run = "compare chain.json --cluster pair.toml --placers single,round-robin --noise 5% ";
  const auto results = json_of(run_trainyard(folder.path(), run + "--samples 20 --json --csv table.csv"))["results"];
  REQUIRE(results.size() == 2);
  CHECK(results[0]["noise"]["beats_best"] == 0.5);  // against itself every sample is a tie
  CHECK(results[1]["noise"]["beats_best"] == 0);    // 3 ops on one device, against 3 ops and 2 transfers
  CHECK(results[1]["noise"]["beats_best_interval"][0] == 0);
  CHECK(contains(read_text(folder.path() / "table.csv"), ",p95_ns,"));
  const auto text = run_trainyard(folder.path(), run).output;
  CHECK(contains(text, "p95"));
  CHECK(contains(text, "beats best"));
}

TEST_CASE("what is wrong with --steps and --noise is said") {
  const TemporaryFolder folder;
  write_layer_inputs(folder);
  const std::pair<const char*, const char*> wrong[] = {
      {"--steps 0", "--steps: '0' is not a whole number of at least 1"},
      {"--samples 5", "--samples needs --noise or --jitter"},
      {"--noise 5", "'5' has no unit"},
      {"--noise x%", "'x%' is not a percentage"},
      {"--noise 5%,", "'' has no unit"},
      {"--noise 5%,default=3%", "gives 'default' twice"},
      {"--noise Conv=1%,Conv=2%", "gives 'Conv' twice"},
      {"--noise Covn=1%", "did you mean 'Conv'?"},
      {"--noise 2000%", "from 0 % to 1000 %"},
      {"--noise 5% --samples 0", "--samples: '0'"},
  };
  for (const auto& entry : wrong) {
    const auto& words = entry.first;
    const auto& expected = entry.second;
    CAPTURE(words);
    const auto result = run_trainyard(folder.path(), std::string{"simulate layer.json --cluster pair.toml "} + words);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.error, expected));
  }
}

TEST_CASE("--jitter makes devices slow as in the record, in simulate, compare and goodput") {
  const TemporaryFolder folder;
  write_layer_inputs(folder);
  write_text(folder.path() / "j.txt", "# ms\n10\n10\n30\n");  // factors 1, 1 and 3 of the median
  const std::string of = " layer.json --cluster pair.toml --json --jitter j.txt --samples 300 ";
  const auto noise = json_of(run_trainyard(folder.path(), "simulate --placer single" + of))["noise"];
  CHECK(noise["p50_ns"] == 1500);
  CHECK(noise["p99_ns"] == 4500);
  const double mean = noise["mean_ns"];
  CHECK(mean == doctest::Approx(2500).epsilon(0.15));  // 1500 x 5 / 3; standard error 1414 / sqrt(300) = 82
  CHECK(json_of(run_trainyard(folder.path(), "simulate --placer single --threads 3" + of))["noise"] == noise);
  CHECK(json_of(run_trainyard(folder.path(), "compare --placers single" + of))["results"][0]["noise"]["mean_ns"] ==
        mean);
  const auto goodput = json_of(run_trainyard(folder.path(), "goodput --placer single --mtbf 1h --checkpoint 1s" + of));
  CHECK(goodput["step_ns"].get<double>() == doctest::Approx(mean).epsilon(0.001));
  // Three consecutive steps have each factor once, so the last two of four have the factors 1 + 1, 1 + 3 or 3 + 1.
  const auto steps = json_of(run_trainyard(folder.path(), "simulate --placer single --steps 4" + of))["steps"]["noise"];
  CHECK(steps["p99_ns"] == 3000);
  write_text(folder.path() / "bad.txt", "10\nslow\n");
  const auto refused = run_trainyard(folder.path(), "simulate layer.json --cluster pair.toml --jitter bad.txt");
  CHECK(refused.exit_code == 3);
  CHECK(contains(refused.error, "bad.txt:2:1"));
  CHECK(contains(refused.error, "'slow' is not a number above 0"));
}

}  // namespace
