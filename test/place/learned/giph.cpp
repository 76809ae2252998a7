#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "place/learned/tasks.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/learned/giph_net.hpp"
#include "trainyard/place/learned/giph_network.hpp"
#include "trainyard/place/learned/policy.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using namespace trainyard::learned;

TEST_CASE("GiPH's gpNet of five ops on one device is that worked out by hand") {
  const PlacementTask task{test::five_ops()};
  const DopplerGraph graph{task};
  const GpNet net{task, graph, Devices(5, 0)};
  // On device 0: a 0 to 10, e 10 to 15, b 15 to 35, c 35 to 65, d 65 to 75. Earliest start less this start, on device 0
  // and device 1:
  // b  10 - 15, 14 - 15      c  10 - 35, 14 - 35      d  65 - 65, max(35 + 6, 65 + 2) - 65      e  -10 on both
  const auto check = [&](const std::string& op, double time, double here, double there) {
    CAPTURE(op);
    const auto node = learn::index(2 * test::group_of(task, op));
    for (learn::Index device = 0; device < 2; ++device) {
      CHECK(net.nodes(node + device, 0) == doctest::Approx(time / 30));  // c takes longest
      CHECK(net.nodes(node + device, 1) == doctest::Approx(1));          // the devices are equal
      CHECK(net.nodes(node + device, 2) == doctest::Approx(time / 30));
      CHECK(net.nodes(node + device, 3) == doctest::Approx((device == 0 ? here : there) / 25));
    }
  };
  check("a", 10, 0, 0);
  check("b", 20, -5, -1);
  check("c", 30, -25, -21);
  check("d", 10, 0, 2);
  check("e", 5, -10, -10);
  // Each of 4 edges has 3 messages: from the pivot to 2 nodes, and from the other node to the pivot.
  CHECK(net.down.senders.size() == 12);
  CHECK(net.up.senders.size() == 12);
  const std::size_t b = 2 * test::group_of(task, "b"), a = 2 * test::group_of(task, "a");
  REQUIRE(net.down.inbox[b].size() == 2);      // the pivot, from a on both devices
  REQUIRE(net.down.inbox[b + 1].size() == 1);  // from a's pivot
  const std::uint32_t message = net.down.inbox[b + 1][0];
  CHECK(net.down.senders[message] == a);
  CHECK(net.down.edges(message, 0) == doctest::Approx(4.0 / 6));  // the transfer from b to d is the longest
  CHECK(net.down.edges(message, 1) == 0);                         // no latency
  CHECK(net.down.edges(message, 2) == doctest::Approx(4.0 / 6));  // on different devices
  CHECK(net.down.edges(net.down.inbox[b][0], 2) == 0);            // on one device
}

TEST_CASE("an episode of GiPH never moves a group twice in a row, and its placement is the best that it passed") {
  Random random{61};
  for (int round = 0; round < 10; ++round) {
    const PlacementTask task{test::random_problem(random, {.most_ops = 12})};
    const GiphNetwork<float> network{{}, 1};
    const auto trial = network.run(task, &random);
    REQUIRE(trial->actions.size() == 2 * task.size());
    PlacementCosts evaluator{task};
    Devices now = task.start;
    double least = task.start_cost;
    for (std::size_t step = 0; step < trial->actions.size(); ++step) {
      const std::size_t group = trial->actions[step] / task.devices();
      if (step > 0 && task.size() > 1) CHECK(group != trial->actions[step - 1] / task.devices());
      now[group] = static_cast<std::uint32_t>(trial->actions[step] % task.devices());
      CHECK(trial->costs[step + 1] == evaluator.cost(now));
      least = std::min(least, trial->costs[step + 1]);
    }
    CHECK(evaluator.cost(trial->devices) == least);
  }
}

TEST_CASE("GiPH finds the optimum of small problems, by brute force") {
  Random random{62};
  for (int round = 0; round < test::rounds(6); ++round) {
    CAPTURE(round);
    const PlacementTask task{test::random_problem(random, {.most_ops = 7, .plain_cluster = true})};
    GiphNetwork<float> network{{}, 1};
    TrainOptions options = usual_training("giph");
    options.updates = 25;
    CHECK(train(network, {&task, 1}, options).best_cost[0] == test::least_cost(task));
  }
}

TEST_CASE("GiPH learns to part two chains in few moves") {
  PlacementTask task{test::independent_chains(2, 4, 2)};
  task.start.assign(task.size(), 0);
  task.start_cost = PlacementCosts{task}.cost(task.start);
  GiphNetwork<float> network{{}, 1};
  TrainOptions options = usual_training("giph");
  options.from_best = false;
  options.updates = 60;
  const TrainResult result = train(network, {&task, 1}, options);
  CHECK(result.best_cost[0] == 4'000);  // 4 x 1000; on one device 8 x 1000
  double first = 0, last = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    first += result.curve[i];
    last += result.curve[result.curve.size() - 1 - i];
  }
  CHECK(last < first);
}

TEST_CASE("a policy of GiPH has the same bytes on any number of threads, and places on any number of devices") {
  const std::vector<Problem> problems{test::independent_chains(2, 5, 2), test::independent_chains(3, 4, 4)};
  PolicyTraining training{.placer = "giph", .options = usual_training("giph")};
  training.options.updates = 4;
  const TrainedPolicy one = train_policy(problems, training);
  training.options.threads = 2;
  CHECK(train_policy(problems, training).policy == one.policy);
  const Problem three = test::independent_chains(3, 4, 3);
  const Schedule schedule = place_by_policy(three, one.policy);
  REQUIRE_NOTHROW(check_schedule(three, schedule));
  LearnedPolicy bad = one.policy;
  bad.placer = "doppler";
  CHECK_THROWS_AS(place_by_policy(three, bad), InputError);
}
