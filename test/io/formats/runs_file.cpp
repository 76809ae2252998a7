#include "trainyard/io/formats/runs_file.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "io/bad_inputs.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"

using namespace trainyard;

namespace {

Problem runs_problem() {
  return {parse_graph(test::kToyGraph, "toy.json"), make_cluster(parse_cluster(test::kToyCluster, "pair.toml"))};
}

constexpr const char* kRuns =
    R"({"format": "trainyard-runs/1", "graph": "toy", "cluster": "pair",
 "ops": ["a", "b", "c"],
 "runs": [
  {"schedule": "heft", "key": "00aa", "loss": 2.5, "outputs_agree": true, "transfers": [{"tensor": "b.out", "from": "gpu0", "to": "gpu1"}], "plain_ns": [3000], "steps": [
   {"makespan_ns": 3010, "ops_ns": [0, 1000, 1000, 2000, 2009, 3010], "transfers_ns": [2001, 2009]},
   {"makespan_ns": 9000, "ops_ns": [0, 1000, 1000, 2000, 2009, 9000], "transfers_ns": [2001, 2009], "dropped": "launches"}]}]}
)";

}  // namespace

TEST_CASE("runs are read as they were written, and written as they were read") {
  const Problem problem = runs_problem();
  const RecordedRuns runs = parse_runs(kRuns, "runs.json", problem);
  REQUIRE(runs.runs.size() == 1);
  const RecordedRun& run = runs.runs[0];
  CHECK(run.steps[0].ops[OpId{2}] == Span{Nanoseconds{2009}, Nanoseconds{3010}});
  CHECK(run.steps[0].transfers == std::vector{Span{Nanoseconds{2001}, Nanoseconds{2009}}});
  CHECK(run.steps[1].dropped == "launches");
  CHECK(run.plain == std::vector{Nanoseconds{3000}});
  std::ostringstream out;
  write_runs(runs, problem, out);
  CHECK(out.str() == kRuns);
}

TEST_CASE("runs of another graph, of unknown names or without their times are refused") {
  struct Change {
    const char *from, *to, *code;
  };
  for (const Change& change : {
           Change{"\"ops\": [\"a\", \"b\", \"c\"]", "\"ops\": [\"a\", \"c\", \"b\"]", "other-graph"},
           Change{"\"ops\": [\"a\", \"b\", \"c\"]", "\"ops\": [\"a\", \"b\"]", "other-graph"},
           Change{"\"b.out\"", "\"b.put\"", "unknown-tensor"},
           Change{"\"gpu1\"", "\"gpu7\"", "unknown-device"},
           Change{"[2001, 2009]", "[2001]", "size"},
           Change{"[2001, 2009]", "[2009, 2001]", "negative-time"},
           Change{"[0, 1000, 1000, 2000, 2009, 3010]", "[0, 1000]", "size"},
           Change{", \"transfers_ns\": [2001, 2009]", "", "missing-key"},
           Change{"\"makespan_ns\": 3010", "\"makespan_ns\": -3010", "negative-time"},
           Change{"runs/1", "runs/2", "format"},
           Change{"\"loss\"", "\"lost\"", "unknown-key"},
       }) {
    std::string text = kRuns;
    text.replace(text.find(change.from), std::string_view{change.from}.size(), change.to);
    const Finding finding = test::finding_of([&] { parse_runs(text, "runs.json", runs_problem()); });
    CHECK_MESSAGE(finding.code == change.code, finding.message);
  }
}

TEST_CASE("every beginning of a file of runs is refused") {
  const std::string whole = kRuns;
  for (std::size_t size = 0; size + 2 < whole.size(); ++size)
    CHECK_THROWS_AS(parse_runs(whole.substr(0, size), "runs.json", runs_problem()), InputError);
}
