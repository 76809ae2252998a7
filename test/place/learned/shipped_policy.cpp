#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/io/formats/policy_file.hpp"
#include "trainyard/place/learned/placement_task.hpp"
#include "trainyard/place/learned/policy.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/families.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

Problem training_problem(const std::string& network, const std::string& cluster) {
  return {training_graph(make_network(network), {.optimizer = Optimizer::adam}), make_cluster(preset_cluster(cluster))};
}

}  // namespace

TEST_CASE("the policy that ships places graphs that it has never seen, never worse than their start") {
  const std::filesystem::path file = test::source_dir() / "data/policies/general.json";
  CHECK(std::filesystem::file_size(file) < 1'000'000);
  const LearnedPolicy policy = read_policy(file);
  CHECK(policy.devices.size() == 4);
  for (const std::string& network :
       {family_members("cifar10", 1, 20).back(), family_members("nmt", 1, 20).back(), std::string{"squeezenet1_1"}}) {
    CAPTURE(network);
    const Problem problem = training_problem(network, "4xV100");
    CHECK(std::ranges::find(policy.graphs, problem.graph().name()) == policy.graphs.end());
    const Schedule schedule = place_by_policy(problem, policy);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const learned::PlacementTask task{problem, policy.grouping};
    CHECK(static_cast<double>(simulate(problem, schedule).makespan.count) <= task.start_cost);
  }
}

TEST_CASE("the policy that ships is refused for another number of devices") {
  const LearnedPolicy policy = read_policy(test::source_dir() / "data/policies/general.json");
  CHECK(test::code_of([&] { place_by_policy(training_problem("lenet", "2xV100"), policy); }) == "device-count");
}
