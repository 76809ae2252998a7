#include "trainyard/study/summary.hpp"

#include <doctest/doctest.h>

#include "study/chain.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/study/run.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a summary adds up what a chain over one link does") {
  const Problem problem = chain();
  const Schedule schedule = placed({0, 1});
  const Timeline timeline = simulate(problem, schedule);
  const RunSummary run = summarize(problem, schedule, timeline, {"critical path", 10_ns});
  CHECK(run.makespan == 20_ns);            // 4 + 10 + 6
  CHECK(run.gap == doctest::Approx(0.5));  // (20 - 10) / 20
  CHECK_FALSE(run.optimal);
  CHECK(run.busy == doctest::Approx(10.0 / 60));  // 4 + 6 busy, of three devices for 20 each
  CHECK(run.exposed_communication == 10_ns);      // both devices wait for the transfer
  CHECK(run.max_load == 16_ns);                   // gpu1: b's 6, and 10 to receive t; gpu0: 4 + 10
  CHECK(run.busiest == DeviceId{1});
  CHECK(run.busiest_share == doctest::Approx(0.3));
  CHECK(run.transfers == 1);
  CHECK(run.transferred == Bytes{10});
  REQUIRE(run.fullest);
  CHECK(problem.cluster().channel(*run.fullest).name == "l01");
  CHECK(run.fullest_share == doctest::Approx(0.5));
  CHECK(run.peak == Bytes{110});  // gpu0: 100 of parameters for the whole step, and 10 of t
  CHECK(run.tightest == DeviceId{0});
  CHECK(run.unused == std::vector{DeviceId{2}});
  REQUIRE(run.sources.size() == 1);
  CHECK(run.sources[0] == SourceUse{"graph", Evidence::given, 2, 10_ns, 1.0});
}

TEST_CASE("sources of one's own stand after the standard ones, in the order in which ops rest on them") {
  const Problem given = chain();  // the graph gives a's 4 ns and b's 6 ns
  GraphBuilder builder;
  builder.add({.name = "mine"});
  builder.add({.name = "given", .times = {{"gpu", 2_ns}}});
  builder.add({.name = "guessed"});
  const Problem problem{std::move(builder).build(), given.cluster(),
                        [](const Graph& graph, OpId op, const Device&) -> OpCost {
                          if (graph.name(op) == "mine") return {5_ns, {"my-model", Evidence::measured}};
                          return {3_ns, {"my-guess", Evidence::estimated}};
                        }};
  const Schedule schedule = placed({0, 0, 0});
  const RunSummary run = summarize(problem, schedule, simulate(problem, schedule), {"critical path", 10_ns});
  CHECK(run.sources == std::vector<SourceUse>{{"graph", Evidence::given, 1, 2_ns, 0.2},
                                              {"my-model", Evidence::measured, 1, 5_ns, 0.5},
                                              {"my-guess", Evidence::estimated, 1, 3_ns, 0.3}});
  REQUIRE(run.evidence.size() == 3);
  CHECK(run.evidence[1].evidence == Evidence::measured);
  CHECK(run.evidence[1].op_time == 5_ns);
}

TEST_CASE("published errors are of the standard costs alone, whatever names others give their sources") {
  const Graph graph = training_graph(make_network("lenet:batch=8"));
  const Cluster cluster = make_cluster(preset_cluster("2xV100"));
  const auto error_of = [](const Problem& problem) {
    return run_placer(problem, find_placer("single")).summary.expected_error;
  };
  CHECK(error_of(Problem{graph, cluster}));
  CHECK_FALSE(error_of(Problem{graph, cluster, [](const Graph&, OpId, const Device&) {
                                 return OpCost{5_ns, CostSource::form};
                               }}));
}

TEST_CASE("a run that reaches its bound is optimal, and uses no link") {
  const Problem problem = chain(Bytes{1000});
  const Schedule schedule = placed({0, 0});
  const Timeline timeline = simulate(problem, schedule);
  const RunSummary run = summarize(problem, schedule, timeline, {"critical path", 10_ns});
  CHECK(run.optimal);
  CHECK(run.gap == 0);
  CHECK(run.fits);
  CHECK_FALSE(run.fullest);
  CHECK(run.peak == Bytes{110});
}

TEST_CASE("a tensor that leaves for two devices loads its maker once") {
  GraphBuilder builder{"fan"};
  builder.add({.name = "a", .times = {{"gpu", 4_ns}}, .outputs = {{"t", Bytes{10}}}});
  builder.add({.name = "b", .times = {{"gpu", 1_ns}}, .inputs = {"t"}});
  builder.add({.name = "c", .times = {{"gpu", 1_ns}}, .inputs = {"t"}});
  ClusterSpec spec{.name = "three"};
  for (const char* name : {"gpu0", "gpu1", "gpu2"}) {
    spec.devices.push_back({.name = name, .device_class = "gpu"});
    spec.egresses.push_back({.device = name, .bandwidth = BytesPerSecond{1e9}});
  }
  const Problem problem{std::move(builder).build(), make_cluster(std::move(spec))};
  const Schedule schedule = placed({0, 1, 2});
  const RunSummary run = summarize(problem, schedule, simulate(problem, schedule), {"none", 0_ns});
  CHECK(run.makespan == 25_ns);  // 4 + 10 + 10 + 1: both transfers share one egress
  CHECK(run.max_load == 14_ns);  // gpu0: 4, and t's 10 counted once; gpu1: 10 + 1
}
