#include <doctest/doctest.h>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

// CI also runs these tests under the thread sanitizer (test/house/subproject.sh).

using namespace trainyard;

TEST_CASE("the plan found on four threads is that found on one: layers, bounds and simulations are shared by them") {
  const Graph graph =
      training_graph(make_network("gpt2:batch=4,layers=1,hidden=32,heads=2,seq=16,positions=16,vocabulary=50"));
  const Problem problem{graph, make_cluster(preset_cluster("4xV100"))};
  CHECK(place_plan(problem, {.batch = 4, .threads = 4}) == place_plan(problem, {.batch = 4, .threads = 1}));
}
