#include "trainyard/place/fastt/os_dpos.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/split_op.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// A chain of convolutions of these times, with transfers of 2 between them.
Problem chain(const std::vector<std::int64_t>& times, std::size_t devices) {
  GraphBuilder builder{"chain"};
  for (std::size_t i = 0; i < times.size(); ++i) {
    OpSpec op{
        .name = std::string(1, static_cast<char>('a' + i)), .type = "Conv", .times = {{"cpu", Nanoseconds{times[i]}}}};
    if (i > 0) op.inputs = {std::string(1, static_cast<char>('a' + i - 1)) + ".0"};
    if (i + 1 < times.size()) op.outputs = {{op.name + ".0", Bytes{2}}};
    builder.add(op);
  }
  return {std::move(builder).build(), make_cluster(test::full_mesh(devices))};
}

Problem lenet(std::size_t devices) {
  return {training_graph(make_network("lenet:batch=64")),
          make_cluster(preset_cluster(std::to_string(devices) + "xV100"))};
}

}  // namespace

TEST_CASE("OS-DPOS splits the long op of a chain in two, and stops where a split gains nothing") {
  // FastT's numbers, halved. Whole: 2 + 16 + 2 = 20. Split: b's parts run [2,10] on p0 and, after a transfer of 1,
  // [3,11] on p1. The second half is back at 12; c [12,14]. A split of a then gains nothing.
  const Problem problem = chain({2, 16, 2}, 2);
  CHECK(dpos(problem).plan->makespan == Nanoseconds{20});
  const Schedule schedule = os_dpos(problem);
  CHECK(schedule.rewrites == std::vector<Rewrite>{SplitOp{.op = "b", .dimension = SplitDimension::batch, .parts = 2}});
  CHECK(schedule.plan->makespan == Nanoseconds{14});
  const Problem split = scheduled_problem(problem, schedule);
  const auto start = [&](const char* op) { return schedule.plan->start[*split.graph().find_op(op)]; };
  CHECK(start("b/part0") == Nanoseconds{2});
  CHECK(start("b/part1") == Nanoseconds{3});
  CHECK(start("c") == Nanoseconds{12});
  // The simulator honours the splits: nothing contends here.
  CHECK(simulate(problem, schedule).makespan == Nanoseconds{14});
}

TEST_CASE("nothing is split on one device, and what cannot be split is placed by DPOS") {
  CHECK(os_dpos(chain({2, 16, 2}, 1)).rewrites.empty());
  const Problem problem = test::make_problem(test::topcuoglu());
  CHECK(os_dpos(problem) == dpos(problem));
}

TEST_CASE("a split tried in place is planned as the split graph is") {
  const Problem base = apply_rewrites(lenet(4), {Replicate{.replicas = 2}});
  const Graph& graph = base.graph();
  detail::DposEngine engine{base, {}};
  const Nanoseconds before = engine.plan();
  std::size_t tried = 0;
  for (const OpId op : base.ops())
    for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel})
      for (const std::size_t parts : {2u, 3u}) {
        const auto specs = split_op_specs(graph, op, dimension, parts);
        if (specs.empty() || !graph.colocation_group(op).empty()) continue;
        CAPTURE(graph.name(op));
        CAPTURE(parts);
        const Problem split = base.with_graph(
            apply_rewrites(graph, std::vector<Rewrite>{SplitOp{std::string{graph.name(op)}, dimension, parts}}));
        engine.replace(op, specs);
        CHECK(engine.plan() == (detail::DposEngine{split, {}}.plan()));
        engine.restore();
        ++tried;
      }
  CHECK(tried >= 40);
  CHECK(engine.plan() == before);
}

TEST_CASE("OS-DPOS starts from data parallelism where a replica fits, and says so in its rewrites") {
  const Problem problem = lenet(4);
  const Schedule schedule = os_dpos(problem);
  REQUIRE(!schedule.rewrites.empty());
  CHECK(schedule.rewrites.front() == Rewrite{Replicate{.replicas = 4}});
  const Problem whole = scheduled_problem(problem, schedule);
  REQUIRE_NOTHROW(check_schedule(whole, schedule));
  CHECK(simulate(problem, schedule).makespan == simulate(whole, schedule).makespan);
  CHECK(schedule == os_dpos(problem));
  CHECK(os_dpos(problem, {.input = OsDposOptions::Input::graph}).rewrites.empty());
}

TEST_CASE("where no replica fits the graph keeps one") {
  const Problem problem = lenet(2);
  ClusterSpec cluster = problem.cluster().spec();
  for (Device& device : cluster.devices) device.memory = Bytes{1'500'000};
  const Problem small{problem.graph(), make_cluster(std::move(cluster))};
  CHECK(fastt_input(small, OsDposOptions::Input::fitting) == Replicate{.replicas = 1});
  CHECK(fastt_input(problem, OsDposOptions::Input::fitting) == Replicate{.replicas = 2});
}

TEST_CASE("data parallel: each replica on its device, what they share spread by bytes") {
  const Problem problem = apply_rewrites(lenet(4), {Replicate{.replicas = 4}});
  const Schedule schedule = data_parallel_schedule(problem, 4);
  REQUIRE_NOTHROW(check_schedule(problem, schedule));
  for (const OpId op : problem.ops()) {
    const std::string name{problem.graph().name(op)};
    if (name.ends_with("@3")) CHECK(schedule.placement[op] == DeviceId{2});
  }
}

TEST_CASE("OS-DPOS ends when time is up: without an answer before the first plan, with the splits found behind it") {
  const Problem problem = lenet(4);
  const auto at_once = [] { return true; };
  CHECK_THROWS_AS(fastt_input(problem, OsDposOptions::Input::fitting, at_once), OutOfTime);
  CHECK(fastt_input(problem, OsDposOptions::Input::replicas, at_once));  // replicas are not tried for fit
  CHECK_THROWS_AS(os_dpos(problem, {.stop = at_once}), OutOfTime);
  CHECK_THROWS_AS(os_dpos(problem, {.dpos = {.stop = at_once}}), OutOfTime);
  CHECK_THROWS_AS(dpos(apply_rewrites(problem, {Replicate{.replicas = 4}}), {.stop = at_once}), OutOfTime);
  // The stop comes later and later; the last run finds all splits.
  std::size_t answers = 0;
  for (std::size_t most = 1; most < 1'000'000; most *= 2) {
    std::size_t asked = 0;
    try {
      const Schedule schedule = os_dpos(problem, {.stop = [&] { return ++asked > most; }});
      REQUIRE_NOTHROW(check_schedule(scheduled_problem(problem, schedule), schedule));
      ++answers;
      if (asked > most) continue;
      CHECK(schedule == os_dpos(problem));
      break;
    } catch (const OutOfTime&) {
      CHECK(answers == 0);
    }
  }
  CHECK(answers >= 2);
}
