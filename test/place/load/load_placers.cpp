#include "trainyard/place/load/load_placers.hpp"

#include <doctest/doctest.h>

#include <string>

#include "place/instances.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/dnn_load.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/place/placer.hpp"

using namespace trainyard;

TEST_CASE("dp-ideals and dpl place a chain as its best split") {
  // 3, 6 and 3 on two processors, .5 an edge, in units of 2 ns: 6, 12, 6, and 1.
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
  try {
    find_placer("dp-ideals").place(problem, {});
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(error.findings().front().code == "no-split");
  }
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
