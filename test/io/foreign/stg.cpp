#include "trainyard/io/foreign/stg.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

Finding finding_in_stg(const std::string& text) {
  return test::finding_of([&] { parse_stg(text, "g.stg"); });
}

}  // namespace

TEST_CASE("a task graph has its times, its predecessors, and no transfers") {
  const Graph graph =
      parse_stg("  2\n 0 0 0\n 1 9 1 0\n\n 2 4 1 0  # a comment\n 3 0 2 1 2\n# CP Length : 9\n", "g.stg");
  REQUIRE(graph.op_count() == 4);
  CHECK(graph.tensor_count() == 0);
  CHECK(graph.name(OpId{1}) == "t1");
  CHECK(graph.after(OpId{3}).size() == 2);
  const Problem problem{graph, make_cluster(preset_cluster("2xV100"))};
  CHECK(problem.duration(OpId{1}, DeviceId{0}) == Nanoseconds{9});
  // Ops of 9 and 4 ns run side by side, between dummy ops of zero time.
  CHECK(simulate(problem, find_placer("heft").place(problem, {})).makespan == Nanoseconds{9});
}

TEST_CASE("what is wrong with a task graph is named with its line and column") {
  CHECK(finding_in_stg("").code == "stg-line");
  CHECK(finding_in_stg("x\n").code == "number");
  CHECK(finding_in_stg("1\n0 0 0\n1 5 1 0\n").message == "3 tasks are announced, but the file has 2");
  CHECK(finding_in_stg("1\n0 0 0\n1 5 1 7\n2 0 1 1\n").code == "unknown-task");
  CHECK(finding_in_stg("1\n0 0 0\n1 5 2 0\n2 0 1 1\n").message == "2 predecessors are announced, but 1 are named");
  const Finding order = finding_in_stg("1\n0 0 0\n2 5 1 0\n1 0 1 1\n");
  CHECK(order.message == "this is task 1, not 2");
  CHECK(order.at.line == 3);
  CHECK(order.at.column == 1);
  CHECK(finding_in_stg("1\n0 0 0\n1 -5 1 0\n2 0 1 1\n").code == "number");
}

TEST_CASE("auto reaches the proven optima of standard task graphs, and no bound is above them") {
  const auto path = test::reference_data("stg/optima.json");
  if (!path) return test::report_skipped("no reference data");
  const auto optima = nlohmann::json::parse(test::read_text(*path));
  int graphs = 0, proven = 0, reached = 0;
  for (const auto& graph_entry : optima.items()) {
    if (++graphs % (test::is_sanitized() ? 100 : 50) != 0) continue;
    const std::string& file = graph_entry.key();
    const Graph graph = read_stg(path->parent_path() / file);
    for (const auto& entry : graph_entry.value().items()) {
      const std::string& processors = entry.key();
      const nlohmann::json& known = entry.value();
      CAPTURE(file);
      CAPTURE(processors);
      const Problem problem{graph, make_cluster(preset_cluster(processors + "xV100"))};
      const Schedule schedule = find_placer("auto").place(problem, {.budget = {.evaluations = 6'000}});
      const std::int64_t makespan = simulate(problem, schedule).makespan.count;
      if (!known.contains("optimal")) continue;
      const auto optimal = known["optimal"].get<std::int64_t>();
      CHECK(makespan >= optimal);
      CHECK(best_lower_bound(problem).value.count <= optimal);
      ++proven;
      reached += makespan == optimal ? 1 : 0;
    }
  }
  CHECK(proven > (test::is_sanitized() ? 0 : 10));
  CHECK(reached * 100 >= proven * 80);  // with a budget small enough for a test
}
