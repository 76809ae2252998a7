#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/formats/calibration_file.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/formats/plan_file.hpp"
#include "trainyard/io/formats/profile_file.hpp"
#include "trainyard/io/formats/runs_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/formats/timeline_file.hpp"

using namespace trainyard;

namespace {

/// The page's examples in one language.
std::vector<std::string> examples(const std::string& language) {
  const std::string page = test::read_text(test::source_dir() / "lib/trainyard/io/FORMATS.md");
  const std::string fence = "```" + language + "\n";
  std::vector<std::string> all;
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at)) {
    at += fence.size();
    const std::size_t end = page.find("```", at);
    all.push_back(page.substr(at, end - at));
    at = end;
  }
  return all;
}

}  // namespace

TEST_CASE("the examples on the page of formats are read as they stand") {
  const auto json = examples("json");
  const auto toml = examples("toml");
  REQUIRE(json.size() == 8);
  REQUIRE(toml.size() == 3);
  CHECK(make_cluster(parse_cluster(toml[1], "the page's fabric")).device_count() == 128 * 8);
  CHECK(make_cluster(parse_cluster(toml[2], "the page's torus")).device_count() == 16 * 16 * 16);
  const Graph graph = parse_graph(json[0], "the page's graph");
  CHECK(graph.op_count() == 2);
  const Problem problem{graph, make_cluster(parse_cluster(toml[0], "the page's cluster"))};
  const Schedule schedule = parse_schedule(json[1], "the page's schedule", problem);
  CHECK(schedule.policy == Policy::priority);
  const PlanFile plan = parse_plan(json[2], "the page's plan");
  CHECK(plan.begins == std::vector<std::string>{"h6"});
  CHECK(plan.plan.recompute == std::vector<StageRecomputation>{StageRecompute::no, StageRecompute::blocks});

  GraphBuilder builder{"toy"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{1000}}}, .outputs = {{"a.out", Bytes{200}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{2000}}}, .inputs = {"a.out"}});
  const ClusterSpec pair = parse_cluster(
      "name = \"pair\"\ndevice = [{name = \"gpu0\", class = \"gpu\"}, {name = \"gpu1\", class = \"gpu\"}]\n"
      "link = [{name = \"nvlink\", from = \"gpu0\", to = \"gpu1\", bandwidth = \"50 GB/s\"}]\n",
      "pair");
  const Problem two{std::move(builder).build(), make_cluster(pair)};
  const Timeline timeline = parse_timeline(json[3], "the page's timeline", two);
  CHECK(timeline.makespan == Nanoseconds{3004});
  CHECK(parse_runs(json[6], "the page's runs", two).runs[0].plain.size() == 2);

  CHECK(parse_profile(json[4], "the page's profile").ops.size() == 1);
  const Calibration calibration = parse_calibration(json[7], "the page's calibration");
  CHECK(calibration.links[0].segments.size() == 2);
  // The page's graph and calibration on its cluster: conv1 takes its given time on a GPU.
  CHECK(Problem{graph, make_cluster(calibrated(parse_cluster(toml[0], "the page's cluster"), calibration).spec),
                cost_model(calibration)}
            .op_count() == 2);
}
