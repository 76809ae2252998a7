#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "place/learned/doppler_instances.hpp"
#include "place/learned/tasks.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/doppler_network.hpp"
#include "trainyard/place/learned/doppler_state.hpp"
#include "trainyard/place/learned/policy.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using namespace trainyard::learned;

TEST_CASE("DOPPLER's features of five ops are those worked out by hand") {
  const PlacementTask task{test::five_ops()};
  const DopplerGraph graph{task};
  REQUIRE(task.size() == 5);
  // Columns: time, bottom level, top level, in, out.
  //   bottom  d 10, b 20 + 6 + 10 = 36, c 30 + 2 + 10 = 42, a 10 + 4 + 42 = 56
  //   top     a 10, b 20 + 4 + 10 = 34, c 30 + 4 + 10 = 44, d 10 + max(6 + 34, 2 + 44) = 56
  const std::map<std::string, std::vector<double>> expected{{"a", {10, 56, 10, 0, 8}},
                                                            {"b", {20, 36, 34, 4, 6}},
                                                            {"c", {30, 42, 44, 4, 2}},
                                                            {"d", {10, 10, 56, 8, 0}},
                                                            {"e", {5, 5, 5, 0, 0}}};
  for (const auto& [op, row] : expected) {
    const std::string& name = op;
    CAPTURE(name);
    for (std::size_t i = 0; i < row.size(); ++i)
      CHECK(graph.features(test::group_of(task, op), learn::index(i)) == doctest::Approx(row[i]));
  }
  const auto path = [&](const learn::RowLists& paths, const std::string& op) {
    const auto list = paths[test::group_of(task, op)];
    return std::vector<std::uint32_t>(list.begin(), list.end());
  };
  const auto groups = [&](const std::vector<std::string>& ops) {
    std::vector<std::uint32_t> list;
    for (const std::string& op : ops) list.push_back(test::group_of(task, op));
    return list;
  };
  CHECK(path(graph.bottom_path, "a") == groups({"a", "c", "d"}));
  CHECK(path(graph.top_path, "d") == groups({"d", "c", "a"}));
  CHECK(path(graph.top_path, "e") == groups({"e"}));
  CHECK(graph.senders.size() == 8);  // 4 edges, both ways
  CHECK(graph.edge_costs.sum() == 2 * (4 + 4 + 6 + 2));
}

TEST_CASE("the critical path takes the ready op with the largest bottom level, to where it ends first") {
  const PlacementTask task{test::five_ops()};
  const DopplerGraph graph{task};
  DopplerState state{task, graph};
  const auto step = [&](const std::string& op, std::uint32_t device) {
    CAPTURE(op);
    const std::uint32_t group = state.ready()[state.critical_choice()];
    CHECK(group == test::group_of(task, op));
    CHECK(state.earliest_device(group) == device);
    state.place(group, device);
  };
  step("a", 0);  // 0 to 10; the devices are equal
  step("c", 0);  // 10 to 40; on device 1, 14 to 44
  step("b", 1);  // 14 to 34; after c on device 0, 40 to 60
  const learn::Matrix<double> features = state.device_features(test::group_of(task, "d"));
  const std::vector<std::vector<double>> expected{
      {40, 30, 10, 40, 50},   // has a and its input c, of 10 to 40; d could start at max(40, 34 + 6)
      {20, 20, 14, 34, 52}};  // has its input b; d could start at max(34, 40 + 2)
  for (learn::Index device = 0; device < 2; ++device)
    for (learn::Index i = 0; i < 5; ++i)
      CHECK(features(device, i) == expected[static_cast<std::size_t>(device)][static_cast<std::size_t>(i)]);
  step("d", 0);
  step("e", 1);
  CHECK(state.ready().empty());
}

TEST_CASE("DOPPLER's stage 1 learns the critical path's choices") {
  Random random{51};
  for (int round = 0; round < test::rounds(3); ++round) {
    const PlacementTask task{test::random_problem(random, {.most_ops = 40})};
    DopplerNetwork<float> network{{}, 1};
    const auto right = [&] {
      const auto taught = network.follow(task, {}, nullptr);
      double count = 0;
      for (std::size_t i = 0; i < taught->actions.size(); ++i) {
        const auto& p = taught->probabilities[i];  // any of several equal ones is right
        count += p[taught->actions[i]] >= *std::ranges::max_element(p) - 1e-6;
      }
      return count / static_cast<double>(taught->actions.size());
    };
    const double before = right();
    const TrainResult result = train(network, {&task, 1}, {.updates = 0, .imitation = 150});
    CAPTURE(task.size());
    CAPTURE(before);
    CHECK(right() >= 0.95);
    CHECK(result.evaluations == 2);  // the teacher's placement, and the policy's final one
    CHECK(result.best_cost[0] <= PlacementCosts{task}.cost(network.follow(task, {}, nullptr)->devices));
  }
}

TEST_CASE("stage 1 can imitate placements that are given") {
  const PlacementTask task{test::independent_chains(3, 4, 3)};
  // Op k of each chain on device k mod 3: by step, not by chain, which no heuristic would do.
  Devices odd(task.size());
  for (std::size_t chain = 0; chain < 3; ++chain)
    for (std::size_t step = 0; step < 4; ++step)
      odd[test::group_of(task, "c" + std::to_string(chain) + "." + std::to_string(step))] =
          static_cast<std::uint32_t>(step % 3);
  const DopplerNetwork<float> network{{}, 1};
  CHECK(network.follow(task, odd, nullptr)->devices == odd);
  DopplerNetwork<float> learner{{}, 1};
  train(learner, {&task, 1}, {.updates = 0, .imitation = 200, .targets = {odd}});
  const auto decided = learner.run(task, nullptr);
  PlacementCosts evaluator{task};
  CHECK(evaluator.cost(decided->devices) == evaluator.cost(odd));
}

TEST_CASE("DOPPLER finds the optimum of small problems, by brute force") {
  Random random{52};
  for (int round = 0; round < test::rounds(8); ++round) {
    CAPTURE(round);
    const PlacementTask task{test::random_problem(random, {.most_ops = 8, .plain_cluster = true})};
    DopplerNetwork<float> network{{}, 1};
    TrainOptions options = usual_training("doppler");
    options.updates = 60;
    CHECK(train(network, {&task, 1}, options).best_cost[0] == test::least_cost(task));
  }
}

TEST_CASE("a policy of DOPPLER has the same bytes on any number of threads, and places on any number of devices") {
  const std::vector<Problem> problems{test::independent_chains(2, 5, 2), test::independent_chains(3, 4, 4)};
  PolicyTraining training{.placer = "doppler", .options = usual_training("doppler")};
  training.options.updates = 6;
  training.options.imitation = 6;
  const TrainedPolicy one = train_policy(problems, training);
  training.options.threads = 2;
  CHECK(train_policy(problems, training).policy == one.policy);
  const Problem three = test::independent_chains(3, 4, 3);
  const Schedule schedule = place_by_policy(three, one.policy);
  REQUIRE_NOTHROW(check_schedule(three, schedule));
  CHECK(schedule == place_by_policy(three, one.policy));
}

TEST_CASE("on DOPPLER's graphs its simulator's times are ours without sharing") {
  // Answers of env/cost.py of the authors' program (04c66de) on SimPy 3.0.11, with op i on device (i k + i / 5) mod n,
  // k = 1, 3, 7. If ops become ready at the same instant, as many do, SimPy uses the order of its queue and Trainyard
  // op numbers. So times are made different: 1000 i^2 + i more for op i, i^3 + 7 for its transfer.
  struct Answer {
    const char* file;
    std::size_t devices;
    std::int64_t makespan[3];
  };
  const Answer answers[] = {
      {"8gpu_full_transformer.txt", 8, {3949925392848, 4154952520907, 4245949617985}},
      {"8gpu_transformer_block.txt", 8, {3916189919133, 4237919901096, 4235673814998}},
      {"gdp_chain_mm_112nodes.txt", 4, {19000934341106, 25001150005406, 25001150005406}},
      {"ffnn_192nodes.txt", 4, {1071823007037, 1202833279321, 1202833279321}},
      {"full_transformer_layer_261nodes.txt", 4, {3826177066685, 3570027008267, 3570027008267}},
      {"transformer_block_215nodes.txt", 4, {3752245963603, 3752867815672, 3752867815672}},
  };
  for (const Answer& answer : answers) {
    const auto file = test::reference_data(std::string{"formats/doppler/"} + answer.file);
    if (!file) return test::report_skipped("no reference data");
    CAPTURE(answer.file);
    const Problem problem = test::doppler_problem(*file, answer.devices, true);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t k = std::vector<std::size_t>{1, 3, 7}[i];
      Placement placement(problem.op_count());
      for (const OpId op : problem.ops())
        placement[op] = DeviceId{static_cast<std::uint32_t>((op.index() * k + op.index() / 5) % answer.devices)};
      CHECK(simulate(problem, {.placement = placement}).makespan.count == answer.makespan[i]);
    }
  }
}
