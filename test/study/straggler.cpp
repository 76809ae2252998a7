#include "trainyard/study/straggler.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <stdexcept>

#include "study/chain.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/cost/machine_change.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/study/compare.hpp"
#include "trainyard/study/run.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a slow device lengthens the ops on it, and no transfers") {
  // a takes 4 ns on gpu0, t 10 ns, b 6 ns on gpu1: 20 ns. One device slow by 1.5: 4 x 1.5 + 10 + 6 = 22 for gpu0,
  // 4 + 10 + 6 x 1.5 = 23 for gpu1, 20 for gpu2.
  const auto slow = simulate_stragglers(chain(), placed({0, 1}), 1.5);
  REQUIRE(slow);
  CHECK(slow->steps.values() == std::vector<Nanoseconds>{22_ns, 23_ns, 20_ns});
  CHECK(slow->mean == doctest::Approx(65.0 / 60));  // (22 + 23 + 20) / (3 x 20)
  CHECK(slow->worst == doctest::Approx(1.15));      // 23 / 20
  CHECK(slow->worst_device == DeviceId{1});
  CHECK_FALSE(slow->regret);
}

TEST_CASE("regret is what a schedule loses to the best of several, by slow device") {
  Stragglers apart = *simulate_stragglers(chain(), placed({0, 1}), 3);  // 12 + 10 + 6, 4 + 10 + 18, 20
  Stragglers one = *simulate_stragglers(chain(), placed({0, 0}), 3);    // 3 x 10 on gpu0, else 10
  CHECK(apart.steps.values() == std::vector<Nanoseconds>{28_ns, 32_ns, 20_ns});
  CHECK(one.steps.values() == std::vector<Nanoseconds>{30_ns, 10_ns, 10_ns});
  set_regrets(std::array{&apart, &one});
  CHECK(*apart.regret == doctest::Approx((1 + 3.2 + 2) / 3 - 1));  // ratios 28 / 28, 32 / 10, 20 / 10
  CHECK(*one.regret == doctest::Approx((30.0 / 28 + 2) / 3 - 1));
  set_regrets({});
}

TEST_CASE("placing again knows the slow device, and need not be taken") {
  // All ops on gpu0 take 10 ns. With gpu0 slow by 3 they take 30 ns there and 10 ns on gpu1. The others run nothing.
  const Problem problem = chain();
  const Schedule one = placed({0, 0});
  Stragglers slow = *simulate_stragglers(problem, one, 3);
  std::vector<DeviceId> asked;
  place_again(slow, problem, problem, one, [&](const Problem& known) {
    CHECK(known.duration(OpId{0}, DeviceId{0}) == 12_ns);
    asked.push_back(DeviceId{0});
    return placed({1, 1});
  });
  CHECK(asked.size() == 1);
  CHECK(slow.placed_again.values() == std::vector<Nanoseconds>{10_ns, 10_ns, 10_ns});
  CHECK(*slow.known == 1);
  set_regrets(std::array{&slow});
  CHECK(*slow.regret == doctest::Approx((3.0 + 1 + 1) / 3 - 1));
  place_again(slow, problem, problem, one, [&](const Problem&) { return placed({0, 1}); });  // 12 + 10 + 6
  CHECK(slow.placed_again.values() == std::vector<Nanoseconds>{28_ns, 10_ns, 10_ns});
  place_again(slow, problem, problem, one, [&](const Problem&) { return placed({1, 0}); });  // 4 + 10 + 18: not taken
  CHECK(slow.placed_again.values() == slow.steps.values());
}

TEST_CASE("what is placed again and does not fit is not taken") {
  // The chain takes 10 ns on gpu0, which is too small, and 20 ns on gpu1; with gpu1 slow by 2, 40 ns.
  const Problem problem = half_large_chain();
  Stragglers slow = *simulate_stragglers(problem, placed({1, 1}), 2);
  place_again(slow, problem, problem, placed({1, 1}), [&](const Problem&) { return placed({0, 0}); });
  CHECK(slow.placed_again == slow.steps);
  CHECK(slow.placed_again[DeviceId{1}] == 40_ns);
}

TEST_CASE("where placing again throws, or gives what is no schedule of the problem, the schedule is kept") {
  const Placer once{.name = "once", .place = [asked = 0](const auto&, const auto&) mutable {
                      if (++asked == 3) throw std::out_of_range("row");
                      return placed({0, asked == 2 ? 99U : 1U});
                    }};
  const Comparison comparison = compare(chain(), {once}, {.slow_one = 1.5, .place_again = true});
  REQUIRE(comparison.rows.size() == 1);
  CHECK(comparison.rows[0].slow_one->placed_again == comparison.rows[0].slow_one->steps);
}

TEST_CASE("a slow device is one of the cluster, by a factor that makes a machine") {
  CHECK_THROWS_WITH_AS(with_slow_device(chain(), DeviceId{9}, 2),
                       "the slow device is not one of the 3 devices of cluster 'row'", InputError);
  for (const double factor : {0.0, -2.0, std::nan("")})
    CHECK_THROWS_AS(with_slow_device(chain(), DeviceId{0}, factor), InputError);
}

TEST_CASE("a schedule is placed again where its steps with each slow device are known") {
  Stragglers none;
  CHECK_THROWS_AS(place_again(none, chain(), chain(), placed({0, 0}),
                              [](const Problem&) {
                                return placed({0, 0});
                              }),
                  InputError);
}

TEST_CASE("a folded schedule has no slow device of its own") {
  Schedule folded_one = placed({0, 0});
  folded_one.rewrites = {Replicate{.replicas = 2, .fold = 2}};
  CHECK_FALSE(simulate_stragglers(chain(), folded_one, 1.5));
}

TEST_CASE("each slow step is that of the changed machine, on any number of threads") {
  const Problem whole{training_graph(make_network("lenet")), make_cluster(preset_cluster("4xV100"))};
  for (const char* placer : {"heft", "round-robin", "expert"}) {
    CAPTURE(placer);
    const Run run = run_placer(whole, find_placer(placer));
    const auto slow = simulate_stragglers(run.problem, run.schedule, 2);
    REQUIRE(slow);
    CHECK(*slow == *simulate_stragglers(run.problem, run.schedule, 2, 3));
    for (const DeviceId device : run.problem.devices()) {
      const std::array changes{MachineChange{.factor = 0.5, .devices = {device}}};
      const ChangedMachine machine = changed_machine(run.problem.cluster(), run.problem.costs(), changes);
      CHECK(slow->steps[device] ==
            simulate(run.problem.with_machine(machine.cluster, machine.costs), run.schedule).makespan);
    }
    // A factor of 1 changes nothing, and a factor of 2 at most doubles the step.
    CHECK(simulate_stragglers(run.problem, run.schedule, 1)->worst == 1);
    CHECK(slow->worst <= 2);
    CHECK(slow->mean <= slow->worst);
  }
}

TEST_CASE("compare asks it of every row, and relates those that fit") {
  const Comparison comparison = compare(half_large_chain(), {"single", "round-robin"}, {.slow_one = 2});
  REQUIRE(comparison.rows.size() == 2);
  for (const ComparisonRow& row : comparison.rows) {
    REQUIRE(row.slow_one);
    CHECK(row.slow_one->regret.has_value() == row.run.summary.fits);
    CHECK(row.slow_one->factor == 2);
  }
  CHECK_FALSE(compare(chain(), {"single"}).rows.front().slow_one);
  // With gpu0 slow by 3, heft places the chain elsewhere. A given schedule is not placed again.
  const Comparison again =
      compare(chain(), {"heft"}, {.slow_one = 3, .place_again = true, .schedules = {{"mine", placed({0, 0})}}});
  for (const ComparisonRow& row : again.rows) {
    CHECK(row.slow_one->steps[DeviceId{0}] == 30_ns);
    CHECK(row.slow_one->known == (row.run.placer == "heft" ? std::optional<double>{1} : std::nullopt));
    CHECK(*row.slow_one->regret == doctest::Approx(5.0 / 3 - 1));
  }
}

TEST_CASE("a factor below 1, above 1000 or none is refused") {
  for (const double factor : {0.5, 0.0, -1.0, 1001.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS((void)simulate_stragglers(chain(), placed({0, 1}), factor), InputError);
}
