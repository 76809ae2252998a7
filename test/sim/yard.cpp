#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "sim/program.hpp"

using namespace trainyard::test;
namespace fs = std::filesystem;

namespace {

const char* const kNames =
    "--instances chain-ops9-seed1.3xV100-PCIe-16GB.fair,fork-join-ops10-width3-seed1.2xV100.none,stg-rand0000.2xV100";

std::string words_of_run(const std::string& folder, const std::string& more = "") {
  return std::string{"yard run "} + kNames + " --placers heft,random,auto --evaluations 5,50 --seeds 2 -o " + folder +
         " " + more;
}

}  // namespace

TEST_CASE("a run of the Yard has a row for each instance, placer, seed and budget, and all its claims hold") {
  const TemporaryFolder folder;
  const auto run = run_trainyard(folder.path(), words_of_run("one", "--threads 1 --json"));
  REQUIRE(run.exit_code == 0);
  CHECK(json_of(run)["rows"] == 3 * (1 + 2 + 4));  // heft; random x 2 seeds; auto x 2 seeds x 2 budgets
  const auto check = run_trainyard(folder.path(), "yard check one --json");
  CHECK(check.exit_code == 0);
  CHECK(json_of(check)["checked"] == 21);
  CHECK(json_of(check)["asked_again"] == 0);
  REQUIRE(run_trainyard(folder.path(), words_of_run("five", "--threads 5")).exit_code == 0);
  CHECK(read_text(folder.path() / "one/results.jsonl") == read_text(folder.path() / "five/results.jsonl"));
  for (const auto& file : fs::recursive_directory_iterator(folder.path() / "one/schedules"))
    if (file.is_regular_file())
      CHECK(read_text(file.path()) ==
            read_text(folder.path() / "five" / fs::relative(file.path(), folder.path() / "one")));
}

TEST_CASE("a run of the Yard goes on where it ended, and shards are the whole") {
  const TemporaryFolder folder;
  REQUIRE(run_trainyard(folder.path(), words_of_run("whole")).exit_code == 0);
  REQUIRE(run_trainyard(folder.path(), words_of_run("parts", "--shard 1/2")).exit_code == 0);
  CHECK(run_trainyard(folder.path(), words_of_run("parts")).exit_code == 3);  // the folder has results already
  const auto rest = run_trainyard(folder.path(), words_of_run("parts", "--resume --json"));
  REQUIRE(rest.exit_code == 0);
  CHECK(json_of(rest)["done_before"] == 11);  // rows 0, 2, ..., 20
  // Runs with other options are another study.
  for (const char* options : {"--no-schedules", "--splits"})
    CHECK(contains(run_trainyard(folder.path(), words_of_run("parts", std::string{options} + " --resume")).error,
                   "other-study"));
  const auto run_own = [&](const char* seed, const char* more) {
    write_text(folder.path() / "own.toml",
               std::string{"[[grid]]\ntier = \"small\"\nfamily = \"mine\"\nmodel = \"random:ops=8\"\ncluster = "
                           "\"2xV100\"\nseed = "} +
                   seed);
    return run_trainyard(folder.path(), std::string{"yard run --set own.toml --placers heft -o own "} + more).exit_code;
  };
  CHECK(run_own("91\n", "") == 0);
  CHECK(run_own("91\n", "--resume") == 0);
  CHECK(run_own("91  # another text\n", "--resume") == 3);
  CHECK(run_own("91\n", "--resume --time 1s") == 3);
  CHECK(read_text(folder.path() / "whole/results.jsonl") == read_text(folder.path() / "parts/results.jsonl"));
  CHECK(run_trainyard(folder.path(), "merge parts -o merged").exit_code == 0);
  CHECK(run_trainyard(folder.path(), "yard check merged").exit_code == 0);
}

TEST_CASE("a false claim, and a corrupt schedule, are refused by their lines, with exit code 1") {
  const TemporaryFolder folder;
  REQUIRE(run_trainyard(folder.path(), "yard run --instances stg-rand0000.2xV100 --placers heft,etf,single -o mine")
              .exit_code == 0);
  std::string results = read_text(folder.path() / "mine/results.jsonl");
  const std::size_t second = results.find("\"makespan_ns\":", results.find('\n')) + 14;
  results.replace(second, results.find(',', second) - second, "99");
  write_text(folder.path() / "mine/results.jsonl", results);
  write_text(folder.path() / "mine/schedules/stg-rand0000.2xV100/heft-0.json.gz", "no schedule");
  const auto check = run_trainyard(folder.path(), "yard check mine");
  CHECK(check.exit_code == 1);
  CHECK(contains(check.output, "3 claims checked"));
  CHECK(contains(check.error,
                 "mine/results.jsonl:2:1: error[step-time]: stg-rand0000.2xV100 by etf, seed 1: the claim is 99 ns"));
  CHECK(contains(check.error, "heft-0.json.gz"));
  const auto answer = json_of(run_trainyard(folder.path(), "yard check mine --json"));
  CHECK(answer["errors"].size() == 2);
}

TEST_CASE("the table of a submission as text, CSV, JSON and page; lists, and words that are wrong") {
  const TemporaryFolder folder;
  REQUIRE(run_trainyard(folder.path(), words_of_run("mine", "--no-schedules")).exit_code == 0);
  CHECK(file_count(folder.path() / "mine") > 0);
  CHECK_FALSE(fs::exists(folder.path() / "mine/schedules"));
  const auto table = run_trainyard(folder.path(), "yard table mine --csv table.csv --report page.html");
  CHECK(table.exit_code == 0);
  CHECK(contains(table.output, "3 instances"));
  CHECK(contains(table.output, "where they win"));
  CHECK(contains(read_text(folder.path() / "table.csv"), "stg-rand0000.2xV100,small,stg,auto,"));
  CHECK(contains(read_text(folder.path() / "page.html"), "\"curves\":[{\"placer\":\"auto\""));
  CHECK(json_of(run_trainyard(folder.path(), "yard table mine --json"))["placers"].size() == 3);
  // Claims of another folder count as another placer's, whatever its name.
  fs::create_directory(folder.path() / "theirs");
  write_text(folder.path() / "theirs/results.jsonl",
             "{\"instance\": \"stg-rand0000.2xV100\", \"placer\": \"auto\", \"seed\": 1, \"budget\": 1000000, "
             "\"makespan_ns\": 262, \"fits\": true}\n");
  const auto joint = json_of(run_trainyard(folder.path(), "yard table mine theirs --json"))["placers"];
  REQUIRE(joint.size() == 4);
  CHECK(joint[0]["placer"] == "auto (mine)");
  CHECK(std::ranges::any_of(joint, [](const auto& each) { return each["placer"] == "auto (theirs)"; }));
  CHECK(json_of(run_trainyard(folder.path(), "yard list --tier large --json"))["instances"].size() == 10);
  CHECK(run_trainyard(folder.path(), "yard list stg-rand0000.2xV100 -o files").exit_code == 0);
  CHECK(run_trainyard(folder.path(), "check files/stg-rand0000.2xV100.json files/stg-rand0000.2xV100.toml").exit_code ==
        0);
  for (const char* words : {"yard", "yard go", "yard run", "yard run x -o a", "yard check", "yard table",
                            "yard table mine mine", "yard table mine theirs mine/", "yard table mine theirs/../mine",
                            "yard list stg-rand0000", "yard run -o a --tier tiny",
                            "yard list stg-rand0000.2xV100 -o table.csv", "yard run -o a --seeds 2000000000000000000",
                            "yard run -o a --evaluations 4611686018427387905", "yard run -o a --placers heff",
                            "yard run -o a --time 1s --evaluations 3", "yard run -o a --placers heft,etf,heft",
                            "yard run -o a --evaluations 5,05", "yard run -o a --time 1s --no-schedules"}) {
    CAPTURE(words);
    CHECK(run_trainyard(folder.path(), words).exit_code == 2);
  }
  CHECK(run_trainyard(folder.path(), "yard check nowhere").exit_code == 3);
  fs::create_directory(folder.path() / "none");
  for (const char* results : {"", "{\"instance\": \"stg-rand0000.2xV100\", \"error\": \"no answer\"}\n"}) {
    write_text(folder.path() / "none/results.jsonl", results);
    const auto none = run_trainyard(folder.path(), "yard check none");
    CHECK(none.exit_code == 1);
    CHECK(contains(none.output, "no claims"));
  }
  const auto failed = run_trainyard(folder.path(),
                                    "yard run --instances stg-rand0000.2xV100 --placers data-parallel,heft,etf "
                                    "--shard 1/3 -o failed");  // row 0: data-parallel, which needs --splits
  CHECK(contains(failed.output, "1 of 3 rows are in failed, 1 failed (first: row 0: "));
  const auto merged = run_trainyard(folder.path(), "merge failed -o shards");
  CHECK(contains(merged.error, "(1 of 3 rows, 1 failed (first: row 0: "));
  // If schedules cannot be written, nothing is journaled, and the run can be resumed.
  const std::string rows = words_of_run("full", "");
  fs::create_directory(folder.path() / "full");
  write_text(folder.path() / "full/schedules", "a file in the place of the folder");
  CHECK(run_trainyard(folder.path(), rows).exit_code == 3);
  fs::remove(folder.path() / "full/schedules");
  CHECK(run_trainyard(folder.path(), rows + " --resume").exit_code == 0);
  CHECK(run_trainyard(folder.path(), "yard check full").exit_code == 0);
}

TEST_CASE("instances of one's own, and claims of searches within a time, are run and checked alike") {
  const TemporaryFolder folder;
  write_text(folder.path() / "own.toml",
             "[[grid]]\ntier = \"small\"\nfamily = \"kept-back\"\nmodel = \"random:ops=8\"\nseed = [91, 92]\n"
             "cluster = \"2xV100\"\n");
  CHECK(json_of(run_trainyard(folder.path(), "yard list --set own.toml --json"))["instances"].size() == 2);
  REQUIRE(run_trainyard(folder.path(), "yard run --set own.toml --placers heft,exact,auto --time 100ms -o mine")
              .exit_code == 0);
  CHECK(run_trainyard(folder.path(), "yard check --set own.toml mine").exit_code == 0);
  CHECK(contains(run_trainyard(folder.path(), "yard table --set own.toml mine").output, "kept-back"));
  CHECK(run_trainyard(folder.path(), "yard check mine").exit_code == 1);  // its instances are not in the built-in set
  REQUIRE(run_trainyard(folder.path(),
                        "yard run --set own.toml --placers data-parallel,auto --evaluations 30 --splits -o split")
              .exit_code == 0);
  CHECK(run_trainyard(folder.path(), "yard check --set own.toml split").exit_code == 0);
}
