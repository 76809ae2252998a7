#include "trainyard/place/judge/coarse.hpp"

#include <doctest/doctest.h>

#include "place/exact/layered.hpp"
#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::test {
namespace {

using Rule = CoarsenOptions::Rule;

TEST_CASE("ways to coarsen are read, and what is none of them is an error") {
  CHECK(parse_coarsen("pesto:200") == CoarsenOptions{Rule::pesto, 200});
  CHECK(parse_coarsen("merge:64") == CoarsenOptions{Rule::merge, 64});
  CHECK(parse_coarsen("hsdag:64") == CoarsenOptions{Rule::parse, 64});
  CHECK(parse_coarsen("groups") == CoarsenOptions{Rule::groups, 0});
  CHECK(parse_coarsen("talos") == CoarsenOptions{Rule::packs, 0});
  for (const char* wrong : {"", "pesto", "pesto:", "pesto:0", "pesto:x", "pesto:12x", "merge:-3", "hsdag", "talos:4",
                            "groups:4", "fold:3"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_coarsen(wrong), InputError);
  }
}

TEST_CASE("the graph of Pesto's figure 6 becomes two ops only in a way that makes no cycle") {
  // A -> C and B -> D with many bytes, A -> D and B -> C with few: {AC, BD} would be a cycle.
  const SmallInstance figure{{{0, 1}, {0, 1}, {0, 1}, {0, 1}}, {{0, {2}, 9}, {1, {3}, 9}, {0, {3}, 1}, {1, {2}, 1}}};
  const Problem problem = problem_of(figure, linked(2));
  const Coarsening coarsening = coarsen(problem, 2);
  const auto& cluster = coarsening.cluster;
  CHECK_FALSE((cluster[OpId{0}] == cluster[OpId{2}] && cluster[OpId{1}] == cluster[OpId{3}]));
  CHECK(coarse_problem(problem, coarsening).op_count() == coarsening.members.rows());  // built, so no cycle
}

TEST_CASE("a cluster takes its ops' times, holds what they hold and sends what others read") {
  // 0 (2) -40-> 1 (3) -6-> 2 (5): ops 0 and 1 are a cluster of 5 ns, which sends the tensor of 1, 6 bytes, to 2.
  GraphBuilder builder{"chain"};
  builder.add(
      {.name = "0", .parameter_bytes = Bytes{1}, .times = {{"gpu", Nanoseconds{2}}}, .outputs = {{"a", Bytes{40}}}});
  builder.add({.name = "1",
               .parameter_bytes = Bytes{2},
               .workspace_bytes = Bytes{7},
               .times = {{"gpu", Nanoseconds{3}}},
               .inputs = {"a"},
               .outputs = {{"b", Bytes{6}}}});
  builder.add({.name = "2", .times = {{"gpu", Nanoseconds{5}}}, .inputs = {"b"}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(2))};
  const Coarsening coarsening = coarsen(problem, 2);
  const Problem coarse = coarse_problem(problem, coarsening);
  REQUIRE(coarse.op_count() == 2);
  CHECK(coarse.duration(OpId{0}, DeviceId{0}) == Nanoseconds{5});  // 2 + 3
  CHECK(coarse.resident_bytes(OpId{0}) == Bytes{3});               // 1 + 2
  CHECK(coarse.graph().workspace_bytes(OpId{0}) == Bytes{7});
  REQUIRE(coarse.graph().tensor_count() == 1);
  CHECK(coarse.graph().bytes(TensorId{0}) == Bytes{6});
}

TEST_CASE("a tensor that the graph keeps is kept where another cluster reads it, apart from those that are freed") {
  // Op 0 makes 40 kept bytes and 6 others, which op 1 reads; then op 2 runs.
  GraphBuilder builder{"kept"};
  builder.add({.name = "0",
               .times = {{"gpu", Nanoseconds{1}}},
               .outputs = {{.name = "a", .bytes = Bytes{40}, .kept = true}, {.name = "b", .bytes = Bytes{6}}}});
  builder.add({.name = "1", .times = {{"gpu", Nanoseconds{1}}}, .inputs = {"a", "b"}});
  builder.add({.name = "2", .workspace_bytes = Bytes{30}, .times = {{"gpu", Nanoseconds{1}}}, .after = {"1"}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(1))};
  const Problem coarse = coarse_problem(problem, coarsen_groups(problem));
  REQUIRE(coarse.op_count() == 3);
  REQUIRE(coarse.graph().tensor_count() == 2);
  for (const Problem* each : {&problem, &coarse}) {
    Simulation simulation{*each};
    CHECK(simulation.peaks({.placement = Placement(3, DeviceId{0})}).peak[DeviceId{0}] == Bytes{70});  // 40 + 30
  }
}

TEST_CASE("a what-if speed of the costs is counted once") {
  const SmallInstance chain{{{0, 200}, {0, 300}}, {{0, {1}, 4}}};
  const Problem problem{graph_of(chain), make_cluster(linked(2)), Costs{}.at({.compute = 0.5})};
  const Problem coarse = coarse_problem(problem, coarsen(problem, 1));
  CHECK(coarse.duration(OpId{0}, DeviceId{0}) == Nanoseconds{1000});  // (200 + 300) x 2
}

TEST_CASE("a coarse schedule expands to one of the ops, no slower") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const Problem problem{layered_graph(60, seed), make_cluster(linked(2))};
    const Coarsening coarsening = coarsen(problem, 15);
    const Problem coarse = coarse_problem(problem, coarsening);
    CHECK(coarse.op_count() == 15);
    const Schedule schedule = find_placer("heft").place(coarse, {});
    const Schedule fine = expand(problem, coarsening, coarse, schedule);
    REQUIRE_NOTHROW(check_schedule(problem, fine));
    for (const OpId op : problem.ops())
      CHECK(fine.placement[op] == schedule.placement[OpId{coarsening.cluster[op].index()}]);
    // A cluster waits for all its inputs and sends when all its ops have ended. Single ops are no slower.
    CHECK(simulate(problem, fine).makespan <= simulate(coarse, schedule).makespan);
  }
}

TEST_CASE("groups that depend on each other in a circle are one cluster") {
  GraphBuilder builder{"circle"};  // a1 -> b1 and b2 -> a2: A and B depend on each other; c is alone
  builder.add({.name = "a1", .colocate = "A", .times = {{"gpu", Nanoseconds{1}}}, .outputs = {{"x", Bytes{1}}}});
  builder.add({.name = "b1", .colocate = "B", .times = {{"gpu", Nanoseconds{1}}}, .inputs = {"x"}});
  builder.add({.name = "b2", .colocate = "B", .times = {{"gpu", Nanoseconds{1}}}, .outputs = {{"y", Bytes{1}}}});
  builder.add({.name = "a2", .colocate = "A", .times = {{"gpu", Nanoseconds{1}}}, .inputs = {"y"}});
  builder.add({.name = "c", .times = {{"gpu", Nanoseconds{1}}}, .inputs = {"y"}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(2))};
  const Coarsening coarsening = coarsen_groups(problem);
  CHECK(coarsening.members.rows() == 2);
  CHECK(coarse_problem(problem, coarsening).duration(OpId{0}, DeviceId{0}) == Nanoseconds{4});
}

TEST_CASE("any placer under any coarsening gives a schedule of the ops that keeps groups and devices") {
  for (std::uint64_t seed = 0; seed < test::rounds(60U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(41, seed);
    RandomProblemOptions options;
    options.most_ops = 30;
    const Problem problem = random_problem(random, options);
    const Problem merged = merged_problem(problem, 8);
    CHECK(merged.group_count() <= problem.group_count());
    for (const char* how : {"pesto:8", "merge:8", "hsdag:8", "talos", "groups"})
      for (const char* name : {"heft", "m-topo", "single"}) {
        CAPTURE(how);
        CAPTURE(name);
        const Placer placer = coarsened(find_placer(name), parse_coarsen(how));
        CHECK(placer.name == name);
        const Schedule schedule = placer.place(problem, {});
        REQUIRE_NOTHROW(check_schedule(problem, schedule));
      }
  }
}

TEST_CASE(
    "every placer on a coarse training graph gives a schedule of its ops; only replicas are of the graph itself") {
  const Problem problem{training_graph(make_network("lenet")), make_cluster(preset_cluster("2xV100"))};
  for (const char* how : {"pesto:12", "merge:12", "hsdag:12", "talos", "groups"})
    for (const Placer& placer : placers()) {
      if (placer.trains) continue;
      CAPTURE(how);
      CAPTURE(placer.name);
      try {
        const Schedule schedule = coarsened(placer, parse_coarsen(how)).place(problem, {.budget = {.evaluations = 20}});
        REQUIRE_NOTHROW(check_schedule(scheduled_problem(problem, schedule), schedule));
        CHECK((placer.replicates || schedule.rewrites.empty()));
      } catch (const MissingError&) {  // needs what this build lacks
      }
    }
}

TEST_CASE("clusters of another graph, and a rule that leaves ops as they are or does not, are refused") {
  const Problem problem = problem_of({{{0, 1}, {0, 1}, {0, 1}}, {{0, {1}, 9}, {1, {2}, 1}}}, linked(2));
  const Problem other = problem_of({{{0, 1}, {0, 1}}, {{0, {1}, 9}}}, linked(2));
  const Coarsening foreign = coarsen(other, 1);
  Coarsening torn = coarsen(problem, 2);
  const Problem coarse = coarse_problem(problem, torn);
  std::swap(torn.cluster[OpId{0}], torn.cluster[OpId{2}]);
  for (const Coarsening& wrong : {Coarsening{}, foreign, torn}) {
    CHECK_THROWS_AS(coarse_problem(problem, wrong), InputError);
    CHECK_THROWS_AS(expand(problem, wrong, coarse, {.placement = Placement(2, DeviceId{0})}), InputError);
  }
  for (const Rule rule : {Rule::pesto, Rule::packs, Rule::groups})
    CHECK_THROWS_AS(merged_problem(problem, 2, rule), InputError);
  for (const Rule rule : {Rule::merge, Rule::parse}) CHECK_THROWS_AS(coarsen(problem, {rule, 2}), InputError);
}

}  // namespace
}  // namespace trainyard::test
