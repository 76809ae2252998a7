#include "trainyard/simulate/steps.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "simulate/small_instance.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/parallel/replicas_placer.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::test {
namespace {

std::vector<std::int64_t> counts(const std::vector<Nanoseconds>& times) {
  std::vector<std::int64_t> result;
  for (const Nanoseconds time : times) result.push_back(time.count);
  return result;
}
using Counts = std::vector<std::int64_t>;
using From = SteadyState::From;

TEST_CASE("without updates the steps of a pipeline overlap") {
  const SmallInstance pipeline{{{0, 3}, {1, 2}}, {{0, {1}, 1}}};
  const StepTimes run = simulate_steps(problem_of(pipeline, linked(2)), schedule_of(pipeline), 4);
  // Step 1 takes 3 + 1 + 2. Then a step ends every 3, because the first device is always busy.
  CHECK(counts(run.ends) == Counts{6, 9, 12, 15});
  CHECK(run.steady == SteadyState{Nanoseconds{3}, From::periodic, 1});
  CHECK(run.ties == 0);
  CHECK(run.timeline.ops[OpId{3}] == span_of(7, 9));  // the second op of step 2: 6 + 1
}

TEST_CASE("an earlier step goes first where a device could run a later one") {
  // Both ops on one device: under plain fifo the first op of every step, ready at 0, would run before any second op.
  const SmallInstance chain{{{0, 1}, {0, 1}}, {{0, {1}, 0}}};
  for (const Policy policy : {Policy::fifo, Policy::priority, Policy::strict}) {
    Schedule schedule = schedule_of(chain);
    schedule.policy = policy;
    schedule.order.push_back({OpId{0}, OpId{1}});
    CHECK(counts(simulate_steps(problem_of(chain, linked(1)), schedule, 3).ends) == Counts{2, 4, 6});
  }
}

TEST_CASE("within a step the priorities of the schedule hold") {
  const SmallInstance two{{{0, 1}, {0, 2}}, {}};
  Schedule schedule = schedule_of(two);
  schedule.policy = Policy::priority;
  schedule.priority = IdMap<OpId, double>(std::vector<double>{-0.5, 1e300});
  const StepTimes run = simulate_steps(problem_of(two, linked(1)), schedule, 2);
  CHECK(run.timeline.ops[OpId{1}] == span_of(0, 2));
  CHECK(run.timeline.ops[OpId{0}] == span_of(2, 3));
  CHECK(run.timeline.ops[OpId{3}] == span_of(3, 5));
  CHECK(run.timeline.ops[OpId{2}] == span_of(5, 6));
}

/// Two layers on two devices: forward ops f1 f2, backward ops g2 g1, and updates u2 u1. Layer 1 is in the colocation
/// group `first_group`.
Problem two_layers(const std::string& first_group) {
  const auto op = [](std::string name, std::int64_t time, Phase phase, std::string group,
                     std::vector<std::string> inputs, std::vector<OutputSpec> outputs) {
    return OpSpec{.name = std::move(name),
                  .phase = phase,
                  .colocate = std::move(group),
                  .times = {{"gpu", Nanoseconds{time}}},
                  .inputs = std::move(inputs),
                  .outputs = std::move(outputs)};
  };
  GraphBuilder builder{"layers"};
  builder.add(op("f1", 1, Phase::forward, first_group, {}, {{"a", Bytes{0}}}));
  builder.add(op("f2", 1, Phase::forward, "w2", {"a"}, {{"b", Bytes{0}}}));
  builder.add(op("g2", 2, Phase::backward, "w2", {"b"}, {{"c", Bytes{0}}}));
  builder.add(op("g1", 2, Phase::backward, first_group, {"c"}, {{"d", Bytes{0}}}));
  builder.add(op("u2", 1, Phase::update, "w2", {"c"}, {}));
  builder.add(op("u1", 1, Phase::update, first_group, {"d"}, {}));
  return Problem{std::move(builder).build(), make_cluster(linked(2))};
}

TEST_CASE("a whole sum of gradients waits for its arrays alone, and the next step for what its members update") {
  // Each of two devices runs f (1) and g (2). An all-reduce of 4 bytes takes two steps of 2, u takes 1: 1 + 2 + 4 + 1.
  GraphBuilder builder{"sum"};
  const auto op = [&](const std::string& name, std::size_t r, std::int64_t time, Phase phase) {
    return OpSpec{.name = name + std::to_string(r),
                  .phase = phase,
                  .colocate = "w" + std::to_string(r),
                  .times = {{"gpu", Nanoseconds{time}}}};
  };
  OpSpec sum{.name = "sum", .phase = Phase::update, .after = {"g0", "g1"}, .collective = CollectiveTask{}};
  sum.collective->bytes = Bytes{4};
  for (std::size_t r = 0; r < 2; ++r) {
    const std::string rank = std::to_string(r);
    OpSpec f = op("f", r, 1, Phase::forward), g = op("g", r, 2, Phase::backward), u = op("u", r, 1, Phase::update);
    f.outputs = {{"a" + rank, Bytes{0}}};
    g.inputs = {"a" + rank};
    g.outputs = {{"d" + rank, Bytes{4}}};
    OpSpec done{.name = "done" + rank,
                .phase = Phase::update,
                .times = {{"gpu", Nanoseconds{0}}},
                .inputs = {"d" + rank},
                .outputs = {{"s" + rank, Bytes{4}}},
                .after = {"sum"}};
    u.inputs = {"s" + rank};
    for (const OpSpec& each : {f, g, done, u}) builder.add(each);
  }
  builder.add(sum);
  const Problem problem{std::move(builder).build(), make_cluster(linked(2))};
  for (const Policy policy : {Policy::fifo, Policy::priority, Policy::strict}) {
    Schedule schedule = placed({0, 0, 0, 0, 1, 1, 1, 1, 0});
    schedule.policy = policy;
    schedule.order = IdMap<DeviceId, std::vector<OpId>>(std::vector<std::vector<OpId>>{
        {OpId{0}, OpId{1}, OpId{2}, OpId{3}, OpId{8}}, {OpId{4}, OpId{5}, OpId{6}, OpId{7}}});
    const StepTimes run = simulate_steps(problem, schedule, 3);
    CHECK(counts(run.ends) == Counts{8, 16, 24});
    CHECK(run.ties == 2 * 2 * 3);  // f, done and u of two ranks, in the second step and the third
    CHECK(run.timeline == naive_simulate(run.problem, run.schedule));
  }
}

TEST_CASE("two steps of replicas with whole sums are those of the plain rules, with ZeRO and without") {
  const Problem problem{training_graph(make_network("lenet:batch=8")), make_cluster(preset_cluster("2xV100"))};
  for (std::size_t zero = 0; zero <= 3; ++zero) {
    CAPTURE(zero);
    const Schedule schedule =
        place_replicas(problem, {.collective = Collective::whole, .zero = zero, .bucket_mebibytes = 0});
    const StepTimes run = simulate_steps(problem, schedule, 2);
    check_schedule(run.problem, run.schedule);
    CHECK(run.ends[1] <= 2 * run.ends[0]);
    CHECK(run.timeline == naive_simulate(run.problem, run.schedule));
  }
}

TEST_CASE("an update on the critical path holds the next step back") {
  const Schedule schedule = placed({0, 1, 1, 0, 1, 0});
  // f1 0-1, f2 1-2, g2 2-4, g1 4-6, u1 6-7. Then f1 of step 2 starts at 7.
  const StepTimes tied = simulate_steps(two_layers("w1"), schedule, 4);
  CHECK(counts(tied.ends) == Counts{7, 14, 21, 28});
  CHECK(tied.steady == SteadyState{Nanoseconds{7}, From::periodic, 1});
  CHECK(tied.ties == 9);  // f1, f2 and g1 of steps 2, 3 and 4; g2 follows f2 anyway

  // Without a first group, f1 of step 2 runs at 1, when the first device would idle. f2 follows u2 (4-5): f2 5-6, g2
  // 6-8, g1 8-10, u1 10-11. The second device is always busy: 1 + 2 + 1 = 4 per step.
  const StepTimes free = simulate_steps(two_layers(""), schedule, 4);
  CHECK(counts(free.ends) == Counts{7, 11, 15, 19});
  CHECK(free.timeline.ops[OpId{6}] == span_of(1, 2));
  CHECK(free.steady == SteadyState{Nanoseconds{4}, From::periodic, 1});
}

TEST_CASE("parameters are held once, and kept tensors to the end of their own step") {
  GraphBuilder builder{"kept"};
  builder.add({.name = "a",
               .parameter_bytes = Bytes{10},
               .times = {{"gpu", Nanoseconds{1}}},
               .outputs = {{"t", Bytes{5}, true}}});
  builder.add({.name = "b", .workspace_bytes = Bytes{7}, .times = {{"gpu", Nanoseconds{2}}}, .after = {"a"}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(1))};
  for (const Policy policy : {Policy::fifo, Policy::strict}) {
    Schedule schedule = placed({0, 0});
    schedule.policy = policy;
    schedule.order.push_back({OpId{0}, OpId{1}});
    const StepTimes run = simulate_steps(problem, schedule, 3);
    CHECK(counts(run.ends) == Counts{3, 6, 9});
    CHECK(run.timeline.devices[DeviceId{0}].peak == Bytes{22});  // 10 + 5 + 7, in each step alone
    CHECK(run.timeline.devices[DeviceId{0}].peak_at == Nanoseconds{1});
  }
}

TEST_CASE("steps that overlap hold the tensors of both") {
  // The second device takes 4 per tensor, and a tensor of 1 byte arrives every 1: they pile up.
  const SmallInstance pipeline{{{0, 1}, {1, 4}}, {{0, {1}, 1}}};
  const StepTimes run = simulate_steps(problem_of(pipeline, linked(2)), schedule_of(pipeline), 3);
  CHECK(counts(run.ends) == Counts{6, 10, 14});
  // The tensors arrive in 1-2, 2-3 and 3-4, and are held until 6, 10 and 14.
  CHECK(run.timeline.devices[DeviceId{1}].peak == Bytes{3});
  CHECK(simulate(problem_of(pipeline, linked(2)), schedule_of(pipeline)).devices[DeviceId{1}].peak == Bytes{1});
}

SteadyState steady_of(const Counts& ends, std::int64_t load) {
  std::vector<Nanoseconds> times;
  for (const std::int64_t end : ends) times.emplace_back(end);
  return steady_state(times, Nanoseconds{load});
}

TEST_CASE("of no step there is no steady state") { CHECK_THROWS_AS(steady_of({}, 3), InputError); }

TEST_CASE(
    "the steady state is the mean of a period seen three times, else of the second half, and never below the load") {
  CHECK(steady_of({7}, 3) == SteadyState{Nanoseconds{7}, From::one_step, 0});
  CHECK(steady_of({9, 10, 12, 14, 16}, 1) == SteadyState{Nanoseconds{2}, From::periodic, 1});
  // Differences 1, 3, 1, 3, 1, 3: a period of two steps that takes 4.
  CHECK(steady_of({9, 10, 13, 14, 17, 18, 21}, 1) == SteadyState{Nanoseconds{2}, From::periodic, 2});
  // (20 - 13) / 2 = 3.5, halves rounded up
  CHECK(steady_of({10, 13, 17, 20}, 1) == SteadyState{Nanoseconds{4}, From::average, 0});
  // (30 - 10) / (5 - 2) = 6.67
  CHECK(steady_of({5, 10, 11, 20, 30}, 1) == SteadyState{Nanoseconds{7}, From::average, 0});
  CHECK(steady_of({10, 11, 12, 13}, 5) == SteadyState{Nanoseconds{5}, From::load, 0});
}

TEST_CASE("one step of a random problem is simulate, and several agree with the plain rules") {
  std::size_t ties = 0, overlaps = 0, longer = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(3000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(31, seed);
    RandomProblemOptions options;
    options.updates = 0.3;
    options.most_ops = 10;
    const Problem problem = random_problem(random, options);
    const Schedule schedule = random_schedule(random, problem);
    const Timeline once = simulate(problem, schedule);
    const StepTimes one = simulate_steps(problem, schedule, 1);
    REQUIRE(one.timeline == once);
    REQUIRE(one.ends == std::vector<Nanoseconds>{once.makespan});

    const std::size_t steps = 2 + random.below(4), ops = problem.op_count();
    StepTimes run = simulate_steps(problem, schedule, steps);
    ties += run.ties;
    const auto span = [&](std::size_t step, OpId op) { return run.timeline.ops[OpId{step * ops + op.index()}]; };
    for (std::size_t step = 1; step < steps; ++step)
      for (const OpId op : problem.ops()) {
        // Every copy of an op starts in the order of the steps.
        REQUIRE(span(step - 1, op).start <= span(step, op).start);
        REQUIRE(span(step - 1, op).end <= span(step, op).end);
        // No op of a group starts before the group's updates in the step before have ended.
        for (const OpId update : problem.group_ops(problem.group(op)))
          if (problem.graph().phase(update) == Phase::update &&
              (update == op || problem.graph().phase(op) != Phase::update))
            REQUIRE(span(step - 1, update).end <= span(step, op).start);
      }
    REQUIRE(std::ranges::is_sorted(run.ends));
    REQUIRE(run.ends.back() == run.timeline.makespan);
    Nanoseconds load{0};
    for (const DeviceId device : problem.devices()) {
      load = std::max(load, once.devices[device].busy);
      REQUIRE(run.timeline.devices[device].busy == once.devices[device].busy * static_cast<std::int64_t>(steps));
    }
    REQUIRE(run.steady.step_time >= load);
    REQUIRE(run.ends.back() >= load * static_cast<std::int64_t>(steps));
    const Nanoseconds apart = once.makespan * static_cast<std::int64_t>(steps);
    overlaps += run.ends.back() < apart;
    longer += run.ends.back() > apart;

    check_schedule(run.problem, run.schedule);
    for (DeviceUse& use : run.timeline.devices) use.out_of_memory.reset();  // naive_simulate() does not set it
    REQUIRE(run.timeline == naive_simulate(run.problem, run.schedule));
  }
  // The random problems cover these cases. In most runs k steps take at most k times one step, but not in all: an op of
  // the next step may hold a device that an op of this step needs a moment later, and the gap of a device after its
  // last op counts only if another step follows.
  CHECK(ties > test::rounds(10'000U));
  CHECK(overlaps > test::rounds(1000U));
  CHECK(longer > test::rounds(100U));
}

TEST_CASE("no steps at all are no run") {
  const SmallInstance instance{{{0, 1}}, {}};
  CHECK_THROWS_WITH_AS(simulate_steps(problem_of(instance, linked(1)), schedule_of(instance), 0),
                       "0 steps cannot be simulated", InputError);
}

TEST_CASE("steps beyond what can be counted are refused") {
  const SmallInstance one{{{0, std::int64_t{1} << 60}}, {}};
  CHECK_THROWS_AS(simulate_steps(problem_of(one, linked(1)), schedule_of(one), 5), InputError);
  CHECK_THROWS_AS(simulate_steps(problem_of(one, linked(1)), schedule_of(one), std::size_t{1} << 40), InputError);
}

}  // namespace
}  // namespace trainyard::test
