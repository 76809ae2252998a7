#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "sim/program.hpp"

using namespace trainyard::test;
namespace fs = std::filesystem;

namespace {

const char* const kStudy = R"(name = "small"
cluster = ["2xV100", "4xV100"]
[[grid]]
model = ["lenet", "alexnet"]
placer = ["heft", "single", "data-parallel"]
seed = [1, 2]
[[grid]]
model = ["lenet", "lenett"]
placer = "pipeline"
parameter = ["microbatches=2", ["microbatches=4", "schedule=gpipe"]]
)";  // 2 x 2 x 3 x 2 + 2 x 2 x 2 = 32 rows, 4 without a model

std::size_t lines_of(const std::string& text) { return static_cast<std::size_t>(std::ranges::count(text, '\n')); }

void check_equal(const fs::path& a, const fs::path& b) {
  for (const char* name : {"results.jsonl", "results.csv", "index.html"}) {
    INFO(name);
    CHECK(read_text(a / name) == read_text(b / name));
  }
}

}  // namespace

TEST_CASE("a sweep has a result for each of its 32 rows, in their order, on any number of threads") {
  const TemporaryFolder folder;
  write_text(folder.path() / "study.toml", kStudy);
  const auto run = run_trainyard(folder.path(), "sweep study.toml -o one --threads 1 --json");
  REQUIRE(run.exit_code == 0);
  CHECK(json_of(run)["rows"] == 32);
  CHECK(json_of(run)["done_now"] == 32);
  CHECK(json_of(run)["errors"] == 4);
  const std::string results = read_text(folder.path() / "one/results.jsonl");
  CHECK(lines_of(results) == 32);
  const nlohmann::json first = nlohmann::json::parse(results.substr(0, results.find('\n')));
  const auto placed =
      json_of(run_trainyard(folder.path(), "place lenet --cluster 2xV100 --placer heft --json -o /dev/null"));
  for (const char* key :
       {"model", "cluster", "placer", "makespan_ns", "lower_bound_ns", "gap", "busy", "evaluations"}) {
    INFO(key);
    CHECK(first[key] == placed[key]);
  }
  CHECK(contains(
      results,
      R"("row":30,"model":"lenett","cluster":"4xV100","placer":"pipeline","parameter":"microbatches=2","error":)"));
  CHECK(contains(results, R"("parameter":"microbatches=4 schedule=gpipe","devices":2,)"));
  const auto five = run_trainyard(folder.path(), "sweep study.toml -o five --threads 5");
  REQUIRE(five.exit_code == 0);
  CHECK(contains(five.output, "are in five, 4 failed (first: row "));
  CHECK(contains(five.output, ": 'lenett' is neither a built-in network nor a file)"));
  check_equal(folder.path() / "one", folder.path() / "five");
}

TEST_CASE("a sweep in three shards, merged, is the sweep in one") {
  const TemporaryFolder folder;
  write_text(folder.path() / "study.toml", kStudy);
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o whole").exit_code == 0);
  for (const char* shard : {"1/3", "2/3", "3/3"})
    REQUIRE(run_trainyard(folder.path(), std::string{"sweep study.toml --shard "} + shard + " -o part-" + shard[0])
                .exit_code == 0);
  CHECK(lines_of(read_text(folder.path() / "part-1/results.jsonl")) == 11);  // rows 0, 3, ..., 30
  REQUIRE(run_trainyard(folder.path(), "merge part-1 part-2 part-3 -o merged").exit_code == 0);
  check_equal(folder.path() / "whole", folder.path() / "merged");
}

TEST_CASE("a sweep that is killed again and again loses no row and runs none twice") {
  const TemporaryFolder folder;
  std::string study =
      "cluster = [\"2xV100\", \"4xV100\"]\nmodel = \"lenet\"\nplacer = [\"heft\", \"single\"]\nseed = [1";
  for (int seed = 2; seed <= 200; ++seed) study += ", " + std::to_string(seed);
  write_text(folder.path() / "study.toml", study + "]\n");  // 2 x 2 x 200 rows
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o whole").exit_code == 0);
  for (int i = 1; i <= 8; ++i)  // each run is killed at another moment
    run_trainyard(folder.path(), "sweep study.toml -o killed --resume -q",
                  "timeout -s KILL 0.0" + std::to_string(3 + i));
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o killed --resume").exit_code == 0);
  check_equal(folder.path() / "whole", folder.path() / "killed");
  CHECK(lines_of(read_text(folder.path() / "killed/journal-0.log")) == 800);
}

namespace {

/// Allows running as root and more ranks than cores, and ignores MPI's permanent leaks.
const std::string kRanks =
    "ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n ";

bool has_ranks(const TemporaryFolder& folder) {
  return contains(run_trainyard(folder.path(), "doctor").output, "mpirun") &&
         run_command("command -v mpirun").exit_code == 0;
}

}  // namespace

TEST_CASE("a sweep on 1, 2 and 4 ranks is the sweep of one process, also after a rank was killed") {
  const TemporaryFolder folder;
  if (!has_ranks(folder)) return report_skipped("no MPI, or no mpirun");
  write_text(folder.path() / "study.toml", kStudy);
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o whole").exit_code == 0);
  for (const char* ranks : {"1", "2", "4"}) {
    CAPTURE(ranks);
    const std::string out = std::string{"ranks-"} + ranks;
    const auto run = run_trainyard(folder.path(), "sweep study.toml -o " + out + " --json", kRanks + ranks);
    REQUIRE(run.exit_code == 0);
    CHECK(json_of(run)["done_now"] == 32);
    check_equal(folder.path() / "whole", folder.path() / out);
  }
  // Removes one of four journals and truncates another.
  fs::remove(folder.path() / "ranks-4/journal-1.log");
  std::string journal = read_text(folder.path() / "ranks-4/journal-2.log");
  if (!journal.empty()) journal.pop_back();
  write_text(folder.path() / "ranks-4/journal-2.log", journal);
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o ranks-4 --resume", kRanks + "3").exit_code == 0);
  check_equal(folder.path() / "whole", folder.path() / "ranks-4");
}

TEST_CASE("a placement by 1, 2 and 3 ranks is that of one process, said once") {
  const TemporaryFolder folder;
  if (!has_ranks(folder)) return report_skipped("no MPI, or no mpirun");
  for (const std::string words :
       {"place lenet --cluster 4xV100 --evaluations 3000 --parameter islands=3",
        "place lenet:batch=8 --cluster 4xV100 --placer plan", "place lenet --cluster 2xV100"}) {
    CAPTURE(words);
    const auto alone = run_trainyard(folder.path(), words + " -o alone.json");
    REQUIRE(alone.exit_code == 0);
    for (const char* ranks : {"1", "2", "3"}) {
      if (is_sanitized() && *ranks != '2') continue;
      CAPTURE(ranks);
      const auto run = run_trainyard(folder.path(), words + " -o ranks.json", kRanks + ranks);
      CHECK(run.exit_code == 0);
      CHECK(occurrences(run.output, " step time ") == 1);
      CHECK(read_text(folder.path() / "ranks.json") == read_text(folder.path() / "alone.json"));
    }
  }
}

TEST_CASE("ranks that would not agree, or have nothing to share, are refused by name") {
  const TemporaryFolder folder;
  if (!has_ranks(folder)) return report_skipped("no MPI, or no mpirun");
  const auto error = [&](const std::string& words) {
    const auto run = run_trainyard(folder.path(), "place lenet --cluster 2xV100 " + words, kRanks + "2");
    CHECK(run.exit_code == 2);
    return run.error;
  };
  CHECK(contains(error("--placer auto --time 1s"), "--evaluations"));
  CHECK(contains(error("--placer heft"), "heft cannot share its work among ranks"));
  CHECK(contains(error("--placer auto --objective completion"), "cannot share its work among ranks here"));
}

TEST_CASE("a line of a journal that was cut short is run again") {
  const TemporaryFolder folder;
  write_text(folder.path() / "study.toml", kStudy);
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o whole --threads 1").exit_code == 0);
  fs::create_directory(folder.path() / "cut");
  fs::copy(folder.path() / "whole/sweep.json", folder.path() / "cut/sweep.json");
  const std::string journal = read_text(folder.path() / "whole/journal-0.log");
  write_text(folder.path() / "cut/journal-0.log", journal.substr(0, journal.find('\n') + 40));
  const auto run = run_trainyard(folder.path(), "sweep study.toml -o cut --resume --json");
  CHECK(json_of(run)["done_before"] == 1);
  CHECK(json_of(run)["done_now"] == 31);
  check_equal(folder.path() / "whole", folder.path() / "cut");
}

TEST_CASE("a truth is a flag, and what a search was allowed stands beside what it did") {
  const TemporaryFolder folder;
  write_text(folder.path() / "study.toml",
             "model = \"lenet\"\ncluster = \"2xV100\"\nplacer = \"auto\"\nno-splits = [true, false]\n"
             "evaluations = 30\n");
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o out").exit_code == 0);
  const std::string results = read_text(folder.path() / "out/results.jsonl");
  CHECK(lines_of(results) == 2);
  CHECK_FALSE(contains(results, "error"));
  const auto first = nlohmann::json::parse(results.substr(0, results.find('\n')));
  CHECK(first["no-splits"] == "true");
  CHECK(first["evaluations"] == 30);
  CHECK(first["evaluations_done"].get<int>() > 0);
  const auto merged = run_trainyard(folder.path(), "merge out -o again --json");
  CHECK(json_of(merged)["verb"] == "merge");
  CHECK(json_of(merged)["rows"] == 2);
}

TEST_CASE("what is wrong with a study, or with its folder, is told by name") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& study, const std::string& words) {
    write_text(folder.path() / "bad.toml", study);
    const auto run = run_trainyard(folder.path(), words);
    CHECK(run.exit_code != 0);
    return run.error;
  };
  const std::string sweep = "sweep bad.toml -o out";
  CHECK(contains(refused("modle = \"lenet\"\n", sweep), "did you mean 'model'?"));
  CHECK(contains(refused("modle = \"lenet\"\n", sweep), "bad.toml:1"));
  CHECK(contains(refused("model = []\n", sweep), "'model' has no values"));
  CHECK(contains(refused("name = \"none\"\n", sweep), "has no keys"));
  CHECK(contains(refused("seed = [1, 1]\n", sweep), "takes the value 1 twice"));
  CHECK(contains(refused("model = \"lenet\"\ngrid = 1\n", sweep), "[[grid]]"));
  CHECK(contains(refused("model = \"lenet\"\n", "sweep bad.toml"), "-o FOLDER"));
  CHECK(contains(refused("model = \"lenet\"\n", sweep + " --shard 3/2"), "there is no shard 3 of 2"));
  CHECK_FALSE(fs::exists(folder.path() / "out"));

  write_text(folder.path() / "study.toml", kStudy);
  REQUIRE(run_trainyard(folder.path(), "sweep study.toml -o out").exit_code == 0);
  CHECK(contains(run_trainyard(folder.path(), "sweep study.toml -o out").error, "--resume"));
  CHECK(contains(refused("model = \"lenet\"\n", sweep + " --resume"), "another study"));
  CHECK(contains(run_trainyard(folder.path(), "merge out nowhere -o all").error, "'nowhere' does not hold a sweep"));
  // flock holds the lock as another process would, as long as the shell runs.
  const auto second = run_trainyard(folder.path(), "sweep study.toml -o out --resume", "flock out/lock");
  CHECK(second.exit_code == 3);
  CHECK(contains(second.error, "another sweep is writing into 'out'"));
}
