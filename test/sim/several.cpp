#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/program.hpp"
#include "trainyard/report/table.hpp"

using namespace trainyard::test;
using nlohmann::json;

namespace {

/// Figure 1 of Talos, with times in milliseconds on a CPU and a GPU.
const std::string kModelA = R"({"format": "trainyard-graph/1", "name": "A", "ops": [
  {"name": "op1", "times_ns": {"cpu": 5000000, "gpu": 1000000}, "outputs": [{"name": "t1", "bytes": 0}]},
  {"name": "op2", "times_ns": {"cpu": 1000000, "gpu": 3000000}, "inputs": ["t1"], "outputs": [{"name": "t2", "bytes": 0}]},
  {"name": "op3", "times_ns": {"cpu": 3000000, "gpu": 2000000}, "inputs": ["t2"], "outputs": []}]})";
const std::string kModelB = R"({"format": "trainyard-graph/1", "name": "B", "ops": [
  {"name": "op4", "times_ns": {"cpu": 1500000, "gpu": 1500000}, "outputs": [{"name": "t4", "bytes": 0}]},
  {"name": "op5", "times_ns": {"cpu": 3000000, "gpu": 1000000}, "outputs": [{"name": "t5", "bytes": 0}]},
  {"name": "op6", "times_ns": {"cpu": 2000000, "gpu": 4000000}, "inputs": ["t4", "t5"], "outputs": []}]})";
const std::string kCluster = R"(name = "cpu-gpu"
[[device]]
name = "gpu0"
class = "gpu"
[[device]]
name = "cpu0"
class = "cpu"
[[link]]
name = "pcie"
from = "gpu0"
to = "cpu0"
bandwidth = "1 GB/s"
)";

void write_figure_1(const TemporaryFolder& folder) {
  write_text(folder.path() / "A.json", kModelA);
  write_text(folder.path() / "B.json", kModelB);
  write_text(folder.path() / "pair.toml", kCluster);
}

}  // namespace

TEST_CASE("place A B --objective completion: each model's end, their sum, and a schedule that simulates to the same") {
  const TemporaryFolder folder;
  write_figure_1(folder);
  const json object = json_of(
      run_trainyard(folder.path(), "place A.json B.json --objective completion --cluster pair.toml -o s.json --json"));
  CHECK(object["placer"] == "talos");
  CHECK(object["objective"] == "completion");
  CHECK(object["value"] == 9'000'000);
  CHECK(object["lower_bound_ns"] == 7'750'000);
  CHECK(object["models"] ==
        json::parse(R"([{"model": "A", "completion_ns": 4500000}, {"model": "B", "completion_ns": 4500000}])"));
  const json again =
      json_of(run_trainyard(folder.path(), "simulate A.json B.json --cluster pair.toml --schedule s.json --json"));
  CHECK(again["completion_ns"] == 9'000'000);
  CHECK(again["makespan_ns"] == 4'500'000);
  const auto text = run_trainyard(folder.path(), "place A.json B.json --objective completion --cluster pair.toml");
  CHECK(contains(text.output, "sum of completions"));
  CHECK(contains(text.output, "4.50 ms B"));
}

TEST_CASE("compare A B --objective completion ranks by the sum") {
  const TemporaryFolder folder;
  write_figure_1(folder);
  const std::string run = "compare A.json B.json --objective completion --cluster pair.toml --placers talos,aswm,tsam ";
  const json results = json_of(run_trainyard(folder.path(), run + "--json"))["results"];
  REQUIRE(results.size() == 3);
  const std::vector<std::string> names{"talos", "tsam", "aswm"};
  const std::vector<std::int64_t> totals{9'000'000, 11'500'000, 12'500'000};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(results[i]["placer"] == names[i]);
    CHECK(results[i]["completion_ns"] == totals[i]);
    CHECK(results[i]["model"] == "A+B");
  }
  CHECK(results[2]["ratio_to_best"].get<double>() == doctest::Approx(12.5 / 9));
  CHECK(contains(run_trainyard(folder.path(), run).output, "completions"));
}

TEST_CASE("compare runs every placer on every model and cluster, and writes one table for each") {
  const TemporaryFolder folder;
  write_figure_1(folder);
  write_text(folder.path() / "other.toml", kCluster);
  const auto two = run_trainyard(
      folder.path(),
      "compare A.json B.json --cluster pair.toml,other.toml --placers heft,single --csv t.csv --markdown t.md");
  CHECK(two.exit_code == 0);
  const std::string csv = read_text(folder.path() / "t.csv"), markdown = read_text(folder.path() / "t.md");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 9);
  CHECK(contains(markdown, "## A.json on cpu-gpu: 3 ops"));
  CHECK(contains(markdown, "| algorithm | step time |"));
}

TEST_CASE("compare --schedule: rows named after their files, beside the placers'") {
  const TemporaryFolder folder;
  write_figure_1(folder);
  const auto& path = folder.path();
  REQUIRE(run_trainyard(path, "place A.json --cluster pair.toml --placer round-robin -o heft.json").exit_code == 0);
  REQUIRE(run_trainyard(path, "place A.json --cluster pair.toml --placer single -o mine.json").exit_code == 0);
  const std::string run =
      "compare A.json --cluster pair.toml --placers heft --schedule heft.json,mine.json --noise 5% ";
  const json results = json_of(run_trainyard(path, run + "--json --csv t.csv --report page.html"))["results"];
  REQUIRE(results.size() == 3);
  const auto row = [&](const std::string& name) {
    return *std::ranges::find_if(results, [&](const json& each) { return each["placer"] == name; });
  };
  const json single = json_of(run_trainyard(path, "simulate A.json --cluster pair.toml --placer single --json"));
  CHECK(row("mine")["makespan_ns"] == single["makespan_ns"]);
  CHECK(row("mine")["lower_bound_ns"] == row("heft")["lower_bound_ns"]);
  CHECK(row("mine")["search_seconds"].is_null());
  CHECK(row("mine")["noise"]["p50_ns"] > 0);
  CHECK(row("heft.json")["placer"] == "heft.json");  // the name "heft" is the placer's
  CHECK(contains(read_text(path / "t.csv"), ",mine,"));
  CHECK(contains(read_text(path / "page.html"), ">mine</button>"));
  // A schedule is used for the one of two models that it belongs to.
  const json both = json_of(
      run_trainyard(path, "compare A.json B.json --cluster pair.toml --placers heft --schedule mine.json --json"));
  CHECK(both["results"].size() == 3);
  CHECK(both["skipped"].size() == 1);
  const std::pair<const char*, const char*> wrong[] = {
      {"A.json --schedule mine.json,mine.json", "'mine.json' is given twice"},
      {"A.json --schedule ,mine.json", "--schedule: names no file"},
      {"A.json B.json --schedule nine.json", "there is no file 'nine.json'"},
      {"B.json --schedule mine.json", "not for"},
  };
  for (const auto& [words, message] : wrong) {
    const auto said = run_trainyard(path, std::string{"compare --cluster pair.toml --placers heft "} + words);
    CHECK(said.exit_code >= 2);
    CHECK(contains(said.error, message));
  }
}

TEST_CASE("compare --repeats shows the middle of several seeds and how far they are apart") {
  const TemporaryFolder folder;
  write_figure_1(folder);
  const std::string run = "compare A.json --cluster pair.toml --placers random,heft --repeats 5 ";
  const json results = json_of(run_trainyard(folder.path(), run + "--json"))["results"];
  for (const json& row : results) {
    REQUIRE(row["repeats"].size() == 5);
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(row["repeats"][i]["seed"] == i + 1);
      values.push_back(row["repeats"][i]["value_ns"]);
    }
    std::ranges::sort(values);
    CHECK(row["makespan_ns"] == values[2]);
    if (row["placer"] == "heft") CHECK(values.front() == values.back());
  }
  CHECK(contains(run_trainyard(folder.path(), run).output, "spread"));
  const auto csv = run_trainyard(folder.path(), run + "--csv -");
  CHECK(contains(csv.output, "repeats,least_ns,most_ns"));
}
