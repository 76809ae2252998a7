#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/program.hpp"
#include "trainyard/report/table.hpp"

using namespace trainyard::test;
using nlohmann::json;

namespace {

/// Fig. 1 of Talos: milliseconds on a CPU and a GPU.
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
