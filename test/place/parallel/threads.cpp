#include <doctest/doctest.h>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

// CI runs these under the thread sanitizer too (test/house/subproject.sh).

using namespace trainyard;

TEST_CASE("the plan found on four threads is that found on one: layers, bounds and simulations are shared by them") {
  for (const char* network :
       {"lenet:batch=16", "gpt2:batch=8,layers=2,hidden=64,heads=4,seq=32,positions=32,vocabulary=100"}) {
    CAPTURE(network);
    const Problem problem{training_graph(make_network(network)), make_cluster(preset_cluster("4xV100"))};
    CHECK(place_plan(problem, {.batch = 8, .threads = 4}) == place_plan(problem, {.batch = 8, .threads = 1}));
  }
}
