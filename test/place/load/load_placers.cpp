#include "trainyard/place/load/load_placers.hpp"

#include <doctest/doctest.h>

#include "place/instances.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/foreign/dnn_load.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/solve/integer_program.hpp"

using namespace trainyard;

TEST_CASE("dp-ideals and dpl place a chain as its best split") {
  // 3, 6 and 3 on two processors, and .5 per edge, doubled: 6, 12, 6, and 1 ns.
  const Problem problem = test::make_problem({.times = {{6, 6}, {12, 12}, {6, 6}}, .edges = {{0, 1, 1}, {1, 2, 1}}});
  for (const char* name : {"dp-ideals", "dpl"}) {
    const Schedule schedule = find_placer(name).place(problem, {});
    CHECK(max_load(problem, schedule.placement) == Nanoseconds{19});  // 6 + 12 + 1
  }
}

TEST_CASE("where nothing contiguous fits, the placers say so") {
  GraphBuilder builder{"tight"};
  builder.add({.name = "a", .parameter_bytes = Bytes{8}, .times = {{"cpu", Nanoseconds{1}}}, .outputs = {}});
  builder.add({.name = "b", .parameter_bytes = Bytes{8}, .times = {{"cpu", Nanoseconds{1}}}, .outputs = {}});
  ClusterSpec cluster = test::full_mesh(1);
  cluster.devices[0].memory = Bytes{10};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  CHECK(test::code_of([&] { find_placer("dp-ideals").place(problem, {}); }) == "no-split");
}

TEST_CASE("what is too large for the exact ways is split along linear orders, or as the search finds it") {
  test::Instance apart;  // each of 2^20 sets of ops is an ideal
  for (std::size_t i = 0; i < 20; ++i) apart.times.emplace_back(2, 1 + static_cast<std::int64_t>(i % 5));
  const Problem wide = test::make_problem(apart);
  CHECK(place_ideals(wide).placement == place_linear(wide).placement);
  if (!has_cbc()) return test::report_skipped("this build has no CBC");
  test::Instance chain;  // 1,000 ops on 4 devices have more than 3,000 columns
  for (std::size_t i = 0; i < 1'000; ++i) {
    chain.times.emplace_back(4, 1);
    if (i > 0) chain.edges.push_back({i - 1, i, 1});
  }
  const Problem large = test::make_problem(chain);
  const LoadPlacerOptions quick{.evaluations = 1'000};
  CHECK(place_load_program(large, false, 10, quick).placement == place_load_search(large, quick).placement);
}

TEST_CASE("a published workload as MODEL and CLUSTER gets the load of the file itself, to a nanosecond an op") {
  const auto file = test::reference_data("dnn-partitioning/throughput-inputs/LayerGraphs/bert24_training.json");
  if (!file) return test::report_skipped("no reference data");
  const DnnWorkload workload = read_dnn_workload(*file);
  const Problem problem{workload_graph(workload), make_cluster(workload_cluster(workload))};
  const Schedule schedule = find_placer("dp-ideals").place(problem, {});
  const double found = static_cast<double>(max_load(problem, schedule.placement).count) * 1e-6;
  CHECK(found == doctest::Approx(41.7458125).epsilon(1e-7));
}
