#include "trainyard/place/fastt/exploration.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

Problem lenet(const char* cluster = "2xV100") {
  return {training_graph(make_network("lenet:batch=64")), make_cluster(preset_cluster(cluster))};
}
StepProfile transfers(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes_and_times) {
  StepProfile profile;
  for (const auto& [bytes, time] : sizes_and_times)
    profile.transfers.push_back({DeviceId{0}, DeviceId{1}, Bytes{bytes}, Nanoseconds{time}});
  return profile;
}

}  // namespace

TEST_CASE("op times are means by name and device, or of all devices of a kind") {
  const Problem of_kind = lenet();
  ClusterSpec spec = of_kind.cluster().spec();
  for (Device& device : spec.devices) device.kind.clear();
  LearnedCosts apart{of_kind.with_machine(make_cluster(spec), {})}, together{of_kind};
  StepProfile profile;
  profile.ops = {
      {"a", DeviceId{0}, Nanoseconds{10}}, {"a", DeviceId{0}, Nanoseconds{14}}, {"a", DeviceId{1}, Nanoseconds{30}}};
  CHECK(apart.add(profile).entries == 2);
  CHECK(together.add(profile).entries == 1);
  CHECK(apart.op_time("a", DeviceId{0}) == Nanoseconds{12});
  CHECK(together.op_time("a", DeviceId{0}) == Nanoseconds{18});  // (10 + 14 + 30) / 3
  CHECK_FALSE(apart.op_time("b", DeviceId{0}));
  profile.ops = {{"a", DeviceId{0}, Nanoseconds{24}}};
  // 12 becomes (10 + 14 + 24) / 3 = 16: a change of 4 / 16
  const LearnedCosts::Change change = apart.add(profile);
  CHECK(change.entries == 0);
  CHECK(change.largest == doctest::Approx(0.25));
}

TEST_CASE("transfers are a line for each direction, with no negative part") {
  const auto line = [](const StepProfile& profile) {
    LearnedCosts costs{lenet()};
    costs.add(profile);
    CHECK_FALSE(costs.line(DeviceId{1}, DeviceId{0}));
    const auto found = costs.line(DeviceId{0}, DeviceId{1});
    REQUIRE(found);
    return std::pair{found->latency_ns, found->ns_per_byte};
  };
  using Line = std::pair<double, double>;
  CHECK(line(transfers({{100, 25}, {200, 45}, {300, 65}})) == Line{5, 0.2});
  CHECK(line(transfers({{100, 20}, {100, 30}})) == Line{0, 0.25});           // one size
  CHECK(line(transfers({{100, 5}, {200, 30}})) == Line{0, 6500.0 / 50000});  // latency would be -20
  CHECK(line(transfers({{100, 30}, {200, 10}})) == Line{20, 0});
  CHECK(line(transfers({{0, 7}, {0, 9}})) == Line{8, 0});
}

TEST_CASE("what was never measured takes no time; what was takes what it took, parts of ops by their own names") {
  const Problem problem = lenet();
  LearnedCosts costs{problem};
  StepProfile profile = transfers({{1000, 600}, {2000, 1100}});  // 100 + bytes / 2
  profile.ops = {{"conv1/conv", DeviceId{0}, Nanoseconds{77}}, {"conv2/conv/part1", DeviceId{1}, Nanoseconds{5}}};
  costs.add(profile);
  const Problem believed = costs.believed(problem);
  const Graph& graph = believed.graph();
  CHECK(believed.duration(*graph.find_op("conv1/conv"), DeviceId{1}) == Nanoseconds{77});
  CHECK(believed.duration(*graph.find_op("conv2/conv"), DeviceId{0}) == Nanoseconds{0});
  const TensorId image = *graph.outputs(*graph.find_op("image")).begin();
  CHECK(believed.transfer_time(image, DeviceId{0}, DeviceId{1}) == Nanoseconds{100 + 200704 / 2});
  CHECK(believed.transfer_time(image, DeviceId{1}, DeviceId{0}) == Nanoseconds{0});
  const Problem split = apply_rewrites(believed, {SplitOp{"conv2/conv", SplitDimension::batch, 2}});
  CHECK(split.duration(*split.graph().find_op("conv2/conv/part0"), DeviceId{0}) == Nanoseconds{0});
  CHECK(split.duration(*split.graph().find_op("conv2/conv/part1"), DeviceId{0}) == Nanoseconds{5});
}

TEST_CASE("a simulated machine without noise measures what the simulator says") {
  const Problem problem = lenet();
  const Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{1})};
  const StepProfile profile = SimulatedMachine{problem, 0, 1, 2}(schedule);
  CHECK(profile.step == simulate(problem, schedule).makespan);
  CHECK(profile.ops.size() == 2 * problem.op_count());
  CHECK(profile.ops[2].time == problem.duration(OpId{2}, DeviceId{1}));
}

TEST_CASE("exploration ends no slower than it started, knows what it ran, and repeats") {
  const Problem problem = lenet("4xV100");
  for (const double noise : {0.0, 0.05}) {
    CAPTURE(noise);
    const Exploration found = explore(problem, SimulatedMachine{problem, noise, 7});
    REQUIRE(found.rounds.size() >= 2);
    CHECK(found.rounds.front().kept);
    CHECK(found.measured <= found.rounds.front().measured);
    const Problem whole = scheduled_problem(problem, found.best);
    REQUIRE_NOTHROW(check_schedule(whole, found.best));
    CHECK(simulate(problem, found.best).fits());
    Nanoseconds in_force = found.rounds.front().measured;
    for (const ExplorationRound& round : found.rounds) {
      if (round.kept) in_force = round.measured;
      if (!round.kept) CHECK(round.measured > in_force);
    }
    CHECK(in_force == found.measured);
    for (const OpId op : whole.ops()) {
      const DeviceId device = found.best.placement[op];
      const auto known = found.costs.op_time(std::string{whole.graph().name(op)}, device);
      REQUIRE(known);
      const auto truth = static_cast<double>(whole.duration(op, device).count);
      CHECK(std::abs(static_cast<double>(known->count) - truth) <= 4 * noise * truth);
    }
    CHECK(explore(problem, SimulatedMachine{problem, noise, 7}).best == found.best);
  }
}

TEST_CASE("a strategy that is out of memory on the machine is rolled back, and teaches nothing") {
  const Problem problem = lenet();
  std::size_t runs = 0;
  SimulatedMachine real{problem, 0, 1};
  const Exploration found = explore(
      problem, [&](const Schedule& schedule) { return runs++ == 0 ? real(schedule) : StepProfile{.fits = false}; });
  CHECK(runs >= 2);
  CHECK(found.measured == found.rounds.front().measured);
  CHECK(found.rounds[1].measured == kLongestTime);
  CHECK_FALSE(found.rounds[1].kept);
}

TEST_CASE("where no replica fits, exploration does not try replicas, though ops take no time as far as it knows") {
  const Problem problem = lenet();
  ClusterSpec cluster = problem.cluster().spec();
  for (Device& device : cluster.devices) device.memory = Bytes{2'000'000};
  const Problem small{problem.graph(), make_cluster(std::move(cluster))};
  const Exploration found = explore(small, SimulatedMachine{small, 0.05, 3});
  for (const Rewrite& rewrite : found.best.rewrites)
    if (const auto* replicate = std::get_if<Replicate>(&rewrite)) CHECK(replicate->replicas == 1);
}

TEST_CASE("an exploration that is stopped has the strategies that were measured, or none") {
  const Problem problem = lenet("8xV100");
  std::size_t asked = 0, most = 1'000'000'000;
  const auto stop = [&] { return ++asked > most; };
  const auto run = [&] {
    asked = 0;
    return explore(problem, SimulatedMachine{problem, 0.05, 7, 3, Checkpoint{stop}},
                   {.placing = {.dpos = {.stop = stop}, .stop = stop}});
  };
  const Exploration all = run();
  REQUIRE(all.rounds.size() >= 2);
  const std::size_t questions = asked;
  for (const std::size_t share : {8u, 4u, 2u}) {
    most = questions / share;
    try {
      const Exploration some = run();
      CHECK(some.rounds.size() < all.rounds.size());
      REQUIRE_NOTHROW(check_schedule(scheduled_problem(problem, some.best), some.best));
    } catch (const OutOfTime&) {
    }
  }
  most = 0;
  CHECK_THROWS_AS(run(), OutOfTime);
}
