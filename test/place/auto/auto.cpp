#include "trainyard/place/auto/auto.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "place/instances.hpp"
#include "simulate/best_schedule.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/auto/split_moves.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/yard/shapes.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard {
namespace {

/// Placer that applies `rewrites` and puts all ops on the first device.
Placer on_one_device(std::vector<Rewrite> rewrites) {
  return {.name = "on-one", .place = [rewrites = std::move(rewrites)](const Problem& given, const PlaceOptions&) {
            Schedule schedule{.placement = {}, .rewrites = rewrites};
            schedule.placement.assign(scheduled_problem(given, schedule).op_count(), DeviceId{0});
            return schedule;
          }};
}

TEST_CASE("auto finds the optimum of small problems: no placement and no order of the devices is shorter") {
  Random random{1};
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    test::Instance instance;
    const auto count = static_cast<std::size_t>(random.between(2, 5));
    for (std::size_t i = 0; i < count; ++i) {
      instance.times.push_back({random.between(1, 9), random.between(1, 9)});
      for (std::size_t j = 0; j < i; ++j)
        if (random.chance(0.4)) instance.edges.push_back({j, i, random.between(0, 6)});
    }
    const Problem problem = test::make_problem(instance);
    const Schedule schedule = auto_place(problem, auto_members(), {.budget = {.evaluations = 1'500}});
    CHECK(test::naive_simulate(problem, schedule).makespan <= test::least_makespan(problem));
  }
}

TEST_CASE("auto is no worse than any of its members, and the same on any number of threads") {
  Random random{2};
  for (int round = 0; round < test::rounds(3); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 24});
    const PlaceOptions options{.seed = 9, .budget = {.evaluations = 600}, .threads = 1};
    const Schedule schedule = auto_place(problem, auto_members(), options);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const Outcome outcome = test::outcome_of(problem, schedule);
    CHECK(outcome.makespan == test::naive_simulate(problem, schedule).makespan);
    if (outcome.excess.count == 0) CHECK(outcome.makespan >= best_lower_bound(problem).value);
    for (const Placer& placer : auto_members()) {
      if (!is_asked(placer, problem, Objective::makespan)) continue;
      CAPTURE(placer.name);
      std::optional<Outcome> member;
      try {
        member = test::outcome_of(problem, placer.place(problem, {.seed = 9}));
      } catch (const InputError&) {    // has no answer
      } catch (const MissingError&) {  // needs what this build lacks
      }
      if (member) CHECK(outcome <= *member);
    }
    for (const unsigned threads : {2U, 5U}) {
      PlaceOptions others = options;
      others.threads = threads;
      CHECK(auto_place(problem, auto_members(), others) == schedule);
    }
  }
}

TEST_CASE("few evaluations are not used up by the orders of the members' schedules") {
  // About 30 members take one evaluation each, plus best orders of the best five. Best orders of all would take 150.
  const Problem problem{make_shape("layered:ops=60,width=6,seed=31"), make_cluster(preset_cluster("4xV100"))};
  const Schedule schedule = auto_place(problem, auto_members(), {.rewrites = false, .budget = {.evaluations = 100}});
  CHECK(schedule.search->evaluations < 110);
  const Outcome outcome = test::outcome_of(problem, schedule);
  Evaluator evaluator{problem};
  for (const std::string_view name : {"heft", "etf", "dpos", "m-etf", "celeritas"})
    CHECK(outcome <= best_order(evaluator, find_placer(name).place(problem, {})).outcome);
}

TEST_CASE("auto fits into memory where one of its members does, and says how much it evaluated") {
  Random random{3};
  int tight = 0;
  for (int round = 0; round < test::rounds(12); ++round) {
    CAPTURE(round);
    const Problem roomy = test::random_problem(random, {.most_ops = 20});
    // Each device has the largest peak memory of heft's schedule.
    Bytes most{1};
    for (const DeviceUse& use : simulate(roomy, find_placer("heft").place(roomy, {})).devices)
      most = std::max(most, use.peak);
    ClusterSpec spec = roomy.cluster().spec();
    for (Device& device : spec.devices) device.memory = most;
    const Problem problem{roomy.graph(), make_cluster(std::move(spec))};
    const bool member_fits = std::ranges::any_of(auto_members(), [&](const Placer& placer) {
      try {
        return is_asked(placer, problem, Objective::makespan) && simulate(problem, placer.place(problem, {})).fits();
      } catch (const InputError&) {  // has no answer
        return false;
      } catch (const MissingError&) {  // needs what this build lacks
        return false;
      }
    });
    const Schedule schedule = auto_place(problem, auto_members(), {.budget = {.evaluations = 400}});
    if (member_fits) CHECK(simulate(problem, schedule).fits());
    tight += memory_may_bind(problem) ? 1 : 0;
    REQUIRE(schedule.search);
    CHECK(schedule.search->evaluations >= 1);
  }
  CHECK(tight > test::rounds(6));
}

/// Forward ops f1, f2, ... of 10 ns and backward ops ..., b2, b1 of 20 ns, where bi reads the activation that fi made,
/// of bytes[i - 1]. They run only on a GPU with `memory`. Its host is joined to it by a link of 1 B/ns.
Problem chain_beside_host(const std::vector<std::int64_t>& bytes, Bytes memory) {
  GraphBuilder builder{"chain"};
  const auto name = [](char letter, std::size_t i) { return letter + std::to_string(i + 1); };
  for (std::size_t i = 0; i < bytes.size(); ++i)
    builder.add({.name = name('f', i),
                 .times = {{"gpu", Nanoseconds{10}}},
                 .inputs = i > 0 ? std::vector{name('a', i - 1)} : std::vector<std::string>{},
                 .outputs = {{name('a', i), Bytes{bytes[i]}}}});
  for (std::size_t i = bytes.size(); i-- > 0;) {
    OpSpec op{.name = name('b', i),
              .phase = Phase::backward,
              .times = {{"gpu", Nanoseconds{20}}},
              .inputs = {name('a', i)},
              .outputs = {{name('g', i), Bytes{1}}}};
    if (i + 1 < bytes.size()) op.inputs.push_back(name('g', i + 1));
    builder.add(op);
  }
  ClusterSpec spec{
      .name = "beside-host",
      .devices = {{.name = "cpu0", .device_class = "cpu"}, {.name = "gpu0", .device_class = "gpu", .memory = memory}}};
  spec.links.push_back({.name = "pcie", .from = "gpu0", .to = "cpu0", .bandwidth = BytesPerSecond{1e9}});
  return Problem{std::move(builder).build(), make_cluster(std::move(spec))};
}

TEST_CASE("auto keeps activations in the host's memory where the GPU's is too small, and is no worse than offload") {
  // Four layers of 30 ns; 9 x 4 + 1 bytes are held while b4 runs. With a memory of 35, a1 moves to the host and back, 1
  // ns per byte, while other ops run: nothing waits, and nothing is recomputed.
  const auto place = [](const Problem& problem, PlaceOptions options) {
    options.budget = {.evaluations = 400};
    return auto_place(problem, auto_members(), options);
  };
  const Problem tight = chain_beside_host({9, 9, 9, 9}, Bytes{35});
  const Schedule away = place(tight, {.threads = 1});
  CHECK(std::holds_alternative<Offload>(away.rewrites.at(0)));
  const Timeline timeline = simulate(tight, away);
  CHECK(timeline.makespan == Nanoseconds{120});
  CHECK(timeline.fits());
  CHECK(place(tight, {.threads = 2}) == away);
  CHECK(place(tight, {.rewrites = false}).rewrites.empty());
  CHECK(place(chain_beside_host({9, 9, 9, 9}, Bytes{37}), {}).rewrites.empty());

  Random random{5};
  std::size_t offloaded = 0;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    std::vector<std::int64_t> bytes;
    for (std::int64_t layers = random.between(3, 8); layers > 0; --layers) bytes.push_back(random.between(1, 100));
    const std::int64_t all = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{1});
    const Problem problem = chain_beside_host(bytes, Bytes{std::max<std::int64_t>(202, all * 4 / 5)});
    const auto outcome = [&](const Schedule& schedule) {
      return Evaluator{scheduled_problem(problem, schedule)}.outcome(schedule);
    };
    const Schedule found = place(problem, {});
    try {
      CHECK(outcome(found) <= outcome(find_placer("offload").place(problem, {})));
    } catch (const NoPlacementError&) {
      continue;
    }
    if (!found.rewrites.empty()) ++offloaded;
  }
  CHECK(offloaded > 5);
}

TEST_CASE("where no schedule is ever beyond the memories, auto's answer does not depend on them") {
  Random random{8};
  int looked_at = 0;
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    const Problem drawn = test::random_problem(random, {.most_ops = 30});
    Bytes all{0};  // all bytes; no run holds them at once, since workspaces follow each other
    int workspaces = 0;
    for (const OpId op : drawn.ops()) {
      all += drawn.resident_bytes(op) + drawn.graph().workspace_bytes(op);
      workspaces += drawn.graph().workspace_bytes(op) > Bytes{0};
      for (const TensorId tensor : drawn.graph().outputs(op)) all += drawn.graph().bytes(tensor);
    }
    if (workspaces < 2) continue;
    const auto answer = [&](Bytes memory) {
      ClusterSpec spec = drawn.cluster().spec();
      for (Device& device : spec.devices) device.memory = memory;
      const Problem problem{drawn.graph(), make_cluster(std::move(spec))};
      looked_at += memory_may_bind(problem);
      return auto_place(problem, auto_members(), {.budget = {.evaluations = 400}});
    };
    CHECK(answer(Bytes{all.count - 1}) == answer(Bytes{2 * all.count}));
  }
  CHECK(looked_at >= 1);
}

TEST_CASE("a placer of one's own is a member of auto") {
  // Two ops of 5 ns, and a transfer that is too long to gain from: 10 on one device, as the catalogue's members find.
  const Problem problem = test::make_problem({{{5, 5}, {5, 5}}, {{0, 1, 9}}});
  int asked = 0;
  const Placer mine{.name = "relay", .place = [&](const Problem& given, const PlaceOptions& options) {
                      ++asked;
                      CHECK(options.seed == 7);
                      return Schedule{.placement = Placement(given.op_count(), DeviceId{1})};
                    }};
  const Schedule schedule = auto_with({mine}).place(problem, {.seed = 7, .budget = {.evaluations = 100}});
  CHECK(asked == 1);
  CHECK(schedule.placer == "auto");
  CHECK(simulate(problem, schedule).makespan == Nanoseconds{10});
  // As the only member it is the only start, and with a budget of 0 evaluations its placement is the answer.
  const Schedule alone = auto_place(problem, {&mine, 1}, {.seed = 7, .budget = {.evaluations = 0}});
  CHECK(alone.placement == Placement(2, DeviceId{1}));
  CHECK(simulate(problem, auto_place(problem, {}, {.budget = {.evaluations = 0}})).makespan == Nanoseconds{10});
}

TEST_CASE(
    "a member whose schedule does not hold, or that throws, is left out; of none that holds, the error says why") {
  const Problem problem = test::make_problem({{{5, 5}, {5, 5}}, {{0, 1, 9}}});
  GraphBuilder builder;
  for (const char* name : {"a", "b"}) builder.add({.name = name, .colocate = "g", .times = {{"gpu", Nanoseconds{5}}}});
  const Problem grouped{std::move(builder).build(), make_cluster(preset_cluster("2xV100"))};
  const OpId first{0}, second{1};
  const Schedule backwards{
      .placement = Placement(2, DeviceId{0}),
      .policy = Policy::strict,
      .order = IdMap<DeviceId, std::vector<OpId>>{std::vector<std::vector<OpId>>{{second, first}, {}}}};
  const std::vector<std::pair<Schedule, const char*>> bad{
      {{.placement = Placement(2)}, "the schedule of placer 'bad': op 't0' is not placed on a device"},
      {{.placement = Placement(2, DeviceId{99})}, "the schedule of placer 'bad': op 't0' is on device number 99"},
      {backwards, "the schedule of placer 'bad': the strict order can never run"}};
  const auto answers = [](Schedule schedule) {
    return Placer{.name = "bad", .place = [schedule](const auto&, const auto&) { return schedule; }};
  };
  for (const Objective objective : {Objective::makespan, Objective::max_load, Objective::completion})
    for (const std::optional<double> seconds : {std::optional<double>{}, std::optional{0.5}}) {
      const PlaceOptions few{.objective = objective, .budget = {.seconds = seconds, .evaluations = 10}};
      for (const auto& [schedule, why] : bad) {
        const Placer members[]{answers(schedule), find_placer("single")};
        CHECK_NOTHROW(check_schedule(problem, auto_place(problem, members, few)));
        try {
          auto_place(problem, {members, 1}, few);
          FAIL("the schedule was accepted");
        } catch (const InputError& error) {
          CHECK(std::string{error.what()}.starts_with(why));
        }
      }
      const Placer split = answers({.placement = Placement{std::vector{DeviceId{0}, DeviceId{1}}}});
      CHECK_NOTHROW(check_schedule(grouped, auto_with({split}).place(grouped, few)));
      CHECK_THROWS_WITH_AS(auto_place(grouped, {&split, 1}, few),
                           "the schedule of placer 'bad': ops 'a' and 'b' of colocation group 'g' are on 'gpu0' and "
                           "'gpu1'",
                           InputError);
      const Placer throws{.name = "mine",
                          .place = [](const auto&, const auto&) -> Schedule { throw std::out_of_range("row"); }};
      CHECK_THROWS_WITH_AS(auto_place(problem, {&throws, 1}, few), "the placer 'mine': row", InputError);
      const Placer empty{.name = "empty"};
      CHECK_THROWS_WITH_AS(auto_place(problem, {&empty, 1}, few), "the placer 'empty' has no function that places",
                           InputError);
    }
  const Placer rewritten = answers({.placement = Placement(2, DeviceId{0}), .rewrites = {SplitOp{.op = "t0"}}});
  CHECK_THROWS_WITH_AS(auto_place(problem, {&rewritten, 1}, {.rewrites = false}),
                       "no member of auto found a schedule without rewriting the graph", InputError);
}

TEST_CASE("a search that is stopped, or has no time, returns the best of the members") {
  Random random{4};
  const Problem problem = test::random_problem(random, {.most_ops = 40});
  const Schedule stopped = auto_place(problem, auto_members(), {.stop = [] { return true; }});
  REQUIRE_NOTHROW(check_schedule(problem, stopped));
  const Schedule hasty = auto_place(problem, auto_members(), {.budget = {.seconds = 0}});
  REQUIRE_NOTHROW(check_schedule(problem, hasty));
}

TEST_CASE("progress never gets worse, and ends at the result") {
  Random random{6};
  const Problem problem = test::random_problem(random, {.most_ops = 40});
  std::vector<SearchProgress> seen;
  const Schedule schedule = auto_place(
      problem, auto_members(), {.budget = {.evaluations = 2'000}, .on_progress = [&](const SearchProgress& progress) {
                                  seen.push_back(progress);
                                }});
  REQUIRE(!seen.empty());
  for (std::size_t i = 1; i < seen.size(); ++i) {
    CHECK(seen[i].best <= seen[i - 1].best);
    CHECK(seen[i].evaluations >= seen[i - 1].evaluations);
  }
  CHECK(seen.back().best == simulate(problem, schedule).makespan);
  CHECK(seen.back().lower_bound >= best_lower_bound(problem).value);
  CHECK(seen.back().lower_bound <= seen.back().best);
}

TEST_CASE("auto proves small optima, and passes the proof on") {
  const Problem problem = test::make_problem(test::topcuoglu(), Sharing::none);
  const Schedule schedule = auto_place(problem, auto_members(), {});
  CHECK(simulate(problem, schedule).makespan == Nanoseconds{73});  // the paper's 80 is heft's
  REQUIRE(schedule.search);
  REQUIRE(schedule.search->lower_bound);
  CHECK(*schedule.search->lower_bound == Nanoseconds{73});
  CHECK(best_lower_bound(problem).value < Nanoseconds{73});
}

TEST_CASE(
    "a quick search is the same on any number of threads, and evaluates 1.5 million ops at most beside its starts") {
  const Problem problem{training_graph(make_network("resnet18:batch=8")), make_cluster(preset_cluster("2xV100"))};
  const Placer& placer = find_placer("auto");
  const Schedule one = placer.place(problem, {.budget = kQuickBudget, .threads = 1});
  CHECK(one == placer.place(problem, {.budget = kQuickBudget, .threads = 3}));
  // 202 ops, or about twice as many with 2 replicas: 1.5 million / 202 = 7,425. Starts take a few hundred more.
  CHECK(one.search->evaluations < 8'500);
}

TEST_CASE("auto splits an op of the critical path where that helps") {
  // A chain of 2, 16 and 2 with transfers of 2. With halves of the long op on two devices it ends at 14 (os_dpos.cpp).
  GraphBuilder builder{"chain"};
  const std::int64_t times[] = {2, 16, 2};
  for (std::size_t i = 0; i < 3; ++i) {
    OpSpec op{
        .name = std::string(1, static_cast<char>('a' + i)), .type = "Conv", .times = {{"cpu", Nanoseconds{times[i]}}}};
    if (i > 0) op.inputs = {std::string(1, static_cast<char>('a' + i - 1)) + ".0"};
    if (i < 2) op.outputs = {{op.name + ".0", Bytes{2}}};
    builder.add(op);
  }
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  std::uint64_t evaluations = 0;
  Evaluator evaluator{problem};
  const Ordered whole = best_order(evaluator, {.placement = Placement(3, DeviceId{0})});
  CHECK(whole.outcome.makespan == Nanoseconds{20});
  const auto split = split_critical_ops(problem, whole, 10, evaluations, {});
  REQUIRE(split);
  CHECK(split->outcome.makespan <= Nanoseconds{14});
  CHECK(std::get<SplitOp>(split->schedule.rewrites.front()).op == "b");
  CHECK(simulate(scheduled_problem(problem, split->schedule), split->schedule).makespan == split->outcome.makespan);
  CHECK(evaluations > 0);
  CHECK(test::outcome_of(problem, auto_place(problem, auto_members(), {.budget = {.evaluations = 500}})) <=
        split->outcome);
}

TEST_CASE("auto goes on with the graph that can still be better, though the best of another is the first") {
  // The whole chain of 2, 16 and 2 takes 20 on one device, and no less on two. With b in halves it also takes 20 on
  // one, but on two 2 + 2 + 8 + 2 + 2 = 16, with transfers of 2 to the other half and back, or less if the first op's
  // output is split as well.
  GraphBuilder builder{"chain"};
  builder.add({.name = "a", .type = "Conv", .times = {{"cpu", Nanoseconds{2}}}, .outputs = {{"a.0", Bytes{2}}}});
  builder.add({.name = "b",
               .type = "Conv",
               .times = {{"cpu", Nanoseconds{16}}},
               .inputs = {"a.0"},
               .outputs = {{"b.0", Bytes{2}}}});
  builder.add({.name = "c", .type = "Conv", .times = {{"cpu", Nanoseconds{2}}}, .inputs = {"b.0"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const std::vector<Placer> members{
      on_one_device({}), on_one_device({SplitOp{.op = "b", .dimension = SplitDimension::batch, .parts = 2}})};
  const Schedule schedule = auto_place(problem, members, {.budget = {.evaluations = 500}});
  CHECK(simulate(scheduled_problem(problem, schedule), schedule).makespan <= Nanoseconds{16});
}

TEST_CASE("auto goes on after a race of graphs that made all schedules from before it look hopeless") {
  // Four V100s take far less than one. The race of the two graphs, with an op whole and split, starts on one device and
  // takes a fifth of the evaluations. It shortens the step by over a fifth, which rules out older schedules.
  const Problem problem{make_shape("layered:ops=80,width=8,seed=1"), make_cluster(preset_cluster("4xV100"))};
  const std::string split{problem.graph().name(OpId{0})};
  const std::vector<Placer> members{
      on_one_device({}), on_one_device({SplitOp{.op = split, .dimension = SplitDimension::batch, .parts = 2}})};
  const std::uint64_t all = test::is_sanitized() ? 2'000 : 10'000;
  const Schedule schedule = auto_place(problem, members, {.budget = {.evaluations = all}});
  CHECK(simulate(scheduled_problem(problem, schedule), schedule).makespan > best_lower_bound(problem).value);
  CHECK(schedule.search->evaluations > all * 9 / 10);
}

TEST_CASE("a folded plan is left as it is: its ops stand for others, on devices so far apart") {
  const Problem problem{training_graph(make_network("gpt2:batch=16,seq=64,layers=4")),
                        make_cluster(preset_cluster("8xA100"))};
  ParallelPlan plan{.data = 2, .tensor = 2, .cuts = {3}, .microbatch = 2};
  plan.recompute = {StageRecompute::no, StageRecompute::no};
  const Schedule one = place_by_plan(problem, plan, {.batch = 16, .detail = PlanDetail::folded});
  REQUIRE(folded(one.rewrites).devices == 4);
  const Placer own{.name = "own", .place = [&](const Problem&, const PlaceOptions&) { return one; }};
  for (const std::vector<Placer>& members : {std::vector{own}, std::vector{own, on_one_device({})}}) {
    const Schedule schedule = auto_place(problem, members, {.budget = {.evaluations = 300}, .threads = 1});
    REQUIRE_NOTHROW(check_schedule(scheduled_problem(problem, schedule), schedule));
    CHECK(simulate(problem, schedule).makespan <= simulate(problem, one).makespan);
  }
  const Schedule alone =
      auto_place(problem, {&own, 1}, {.objective = Objective::completion, .budget = {.evaluations = 300}});
  REQUIRE_NOTHROW(check_schedule(scheduled_problem(problem, alone), alone));
}

TEST_CASE("auto is no worse than its members on networks, with the smallest budgets") {
  for (const std::string network : {"lenet:batch=64", "alexnet"}) {
    if (test::is_sanitized() && network != "lenet:batch=64") continue;
    CAPTURE(network);
    const Problem problem{training_graph(make_network(network)), make_cluster(preset_cluster("4xV100"))};
    const Outcome outcome =
        test::outcome_of(problem, auto_place(problem, auto_members(), {.budget = {.evaluations = 50}, .threads = 2}));
    for (const Placer& placer : auto_members()) {
      if (!is_asked(placer, problem, Objective::makespan)) continue;
      CAPTURE(placer.name);
      try {
        const Schedule schedule = placer.place(problem, {});
        CHECK(outcome <= test::outcome_of(problem, schedule));
      } catch (const InputError&) {    // has no answer
      } catch (const MissingError&) {  // needs what this build lacks
      }
    }
  }
}

}  // namespace
}  // namespace trainyard
