#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/random_problem.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/simulate/edited_simulation.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::test {
namespace {

/// The edited graph, built from scratch. Ops after a replaced op come after the ordered new ops.
Graph rebuilt(const Graph& graph, const GraphEdit& edit) {
  std::vector<std::string> old, now;
  for (std::size_t i = 0; i < edit.count; ++i) old.emplace_back(graph.name(OpId{edit.first.index() + i}));
  for (const std::size_t number : edit.ordered) now.push_back(edit.by[number].name);
  std::vector<std::string> earlier;  // ops outside the edit that precede a replaced op
  for (std::size_t i = 0; i < edit.count; ++i)
    for (const OpId op : graph.after(OpId{edit.first.index() + i})) {
      const std::string name{graph.name(op)};
      if (std::find(old.begin(), old.end(), name) == old.end()) earlier.push_back(name);
    }
  GraphBuilder builder{graph.name()};
  for (const OpId op : graph.ops()) {
    if (op == edit.first)
      for (std::size_t i = 0; i < edit.by.size(); ++i) {
        OpSpec spec = edit.by[i];
        spec.after.clear();
        if (std::find(edit.ordered.begin(), edit.ordered.end(), i) != edit.ordered.end()) spec.after = earlier;
        builder.add(spec);
      }
    if (op >= edit.first && op.index() < edit.first.index() + edit.count) continue;
    OpSpec spec = spec_of(graph, op);
    const auto is_old = [&](const std::string& name) { return std::find(old.begin(), old.end(), name) != old.end(); };
    if (std::any_of(spec.after.begin(), spec.after.end(), is_old)) {
      spec.after.erase(std::remove_if(spec.after.begin(), spec.after.end(), is_old), spec.after.end());
      spec.after.insert(spec.after.end(), now.begin(), now.end());
    }
    builder.add(spec);
  }
  return std::move(builder).build();
}

/// Replaces the `count` ops from `first` on by two to five new ones. These read some of the tensors that the old ops
/// read and of earlier new ops. The last one writes the tensors that other ops read from the old ones.
GraphEdit random_edit(Random& random, const Graph& graph, OpId first, std::size_t count, int round) {
  GraphEdit edit{.first = first, .count = count, .by = {}, .ordered = {}};
  const auto own = [&](OpId op) { return op >= first && op.index() < first.index() + count; };
  std::vector<std::string> reads;
  std::vector<OutputSpec> writes;
  std::vector<GivenTime> times;
  for (std::size_t i = 0; i < count; ++i) {
    const OpId op{first.index() + i};
    const OpSpec spec = spec_of(graph, op);
    times = spec.times;
    for (const TensorId tensor : graph.inputs(op))
      if (!own(graph.producer(tensor))) reads.emplace_back(graph.name(tensor));
    for (const TensorId tensor : graph.outputs(op)) {
      const auto readers = graph.consumers(tensor);
      if (std::any_of(readers.begin(), readers.end(), [&](OpId reader) { return !own(reader); }))
        writes.push_back({std::string{graph.name(tensor)}, graph.bytes(tensor), graph.kept(tensor)});
    }
  }
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  const std::size_t most = 2 + random.below(4);
  const std::string stem = "new" + std::to_string(round) + "_";
  std::vector<std::string> made;
  for (std::size_t i = 0; i < most; ++i) {
    OpSpec spec{.name = stem + std::to_string(i)};
    spec.times = times;
    for (GivenTime& time : spec.times) time.time = Nanoseconds{static_cast<std::int64_t>(random.below(5))};
    for (const std::string& read : reads)
      if (random.chance(0.6)) spec.inputs.push_back(read);
    for (const std::string& read : made)
      if (random.chance(0.5)) spec.inputs.push_back(read);
    if (i + 1 < most) {
      spec.outputs.push_back({stem + "t" + std::to_string(i), Bytes{static_cast<std::int64_t>(random.below(4))}});
      made.push_back(spec.outputs.front().name);
    } else {
      spec.outputs = writes;
    }
    if (i + 1 == most || random.chance(0.5)) edit.ordered.push_back(i);
    edit.by.push_back(std::move(spec));
  }
  return edit;
}

TEST_CASE("an edited simulation takes what a simulation of the graph built anew takes") {
  std::size_t edits = 0, longer = 0, ordered = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(3'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(77, seed);
    RandomProblemOptions options;
    options.memory = false;
    options.closed_links = seed % 3 == 0;
    options.zero_times = seed % 2 == 0 ? 0.2 : 0;
    Problem problem = random_problem(random, options);
    if (problem.op_count() == 0 || problem.cluster().has_fair_channels()) continue;
    OpId first{random.below(problem.op_count())};
    std::size_t count = 1;
    for (int round = 0; round < 3; ++round) {
      if (problem.graph().given_times(first).empty()) break;
      EditedSimulation edited{problem};
      const GraphEdit edit = random_edit(random, problem.graph(), first, count, round);
      const Problem anew = problem.with_graph(rebuilt(problem.graph(), edit));
      Simulation simulation{anew};
      for (int again = 0; again < 2; ++again) {
        edited.replace(edit);
        REQUIRE(edited.op_count() == anew.op_count());
        for (int placement = 0; placement < 3; ++placement) {
          Schedule schedule = random_schedule(random, anew);
          schedule.policy = Policy::fifo;
          schedule.order = {};
          schedule.priority = {};
          REQUIRE(edited.makespan(schedule.placement) == simulation.makespan(schedule));
          ++edits;
        }
        edited.restore();
        // Another edit in between, of one random op, leaves no trace.
        const OpId other{random.below(problem.op_count())};
        if (problem.graph().given_times(other).empty()) continue;
        edited.replace(random_edit(random, problem.graph(), other, 1, 10 + round));
        edited.restore();
      }
      ordered += !problem.graph().after(first).empty() || !problem.graph().before(first).empty();
      longer += count > 1;
      count = edit.by.size();
      problem = anew;
    }
  }
  CHECK(edits > test::rounds(10'000U));
  CHECK(longer > test::rounds(1'000U));
  CHECK(ordered > test::rounds(500U));
}

TEST_CASE("an edit that no device can run is refused, and nothing is replaced") {
  Random random{5};
  const Problem problem = random_problem(random, {.memory = false});
  const Graph& graph = problem.graph();
  EditedSimulation edited{problem};
  GraphEdit edit{.first = OpId{0}, .count = 1, .by = {spec_of(graph, OpId{0})}, .ordered = {0}};
  edit.by.front().device_kinds = {"abacus"};
  CHECK_THROWS_AS(edited.replace(edit), InputError);
  edit.by = {spec_of(graph, OpId{0})};
  edited.replace(edit);  // op 0 replaced by itself: the graph stays the same
  Schedule schedule = random_schedule(random, problem);
  schedule.policy = Policy::fifo;
  CHECK(edited.makespan(schedule.placement) == simulated_makespan(problem, {.placement = schedule.placement}));
}

TEST_CASE("before an edit there are no new ops") {
  Random random{5};
  const EditedSimulation edited{random_problem(random, {.memory = false})};
  CHECK_THROWS_AS(edited.piece(), InputError);
}

TEST_CASE("an edit that does not fit the graph is refused, and nothing is replaced") {
  GraphBuilder builder{"pair"};  // a of 2 ns sends "t" to b of 3 ns
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{2}}}, .outputs = {{"t", Bytes{1}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{3}}}, .inputs = {"t"}});
  const Problem problem{std::move(builder).build(),
                        make_cluster({.devices = {{.name = "gpu0", .device_class = "gpu"}}})};
  const OpSpec a = spec_of(problem.graph(), OpId{0});
  EditedSimulation edited{problem};
  const auto refused = [&](const GraphEdit& edit) { return test::code_of([&] { edited.replace(edit); }); };
  CHECK(refused({.first = OpId{2}, .by = {a}}) == "edit");
  for (const GraphEdit& none : {GraphEdit{}, GraphEdit{.first = OpId{0}, .count = 0, .by = {a}}})
    CHECK_THROWS_WITH_AS(edited.replace(none), "an edit replaces no ops of graph 'pair'", InputError);
  CHECK(refused({.first = OpId{0}, .count = 3, .by = {a}}) == "edit");
  CHECK(refused({.first = OpId{0}, .by = {a}, .ordered = {1}}) == "edit");
  OpSpec other = a;
  other.outputs.front().name = "tt";
  CHECK(refused({.first = OpId{0}, .by = {other}}) == "missing-output");
  CHECK(edited.makespan(Placement(2, DeviceId{0})) == Nanoseconds{5});
  CHECK(refused({.first = OpId{0}, .by = {a}}) == "");
  CHECK(refused({.first = OpId{0}, .by = {a}}) == "edit");  // an edit is already made
  CHECK_THROWS_AS(edited.makespan(Placement(3, DeviceId{0})), InputError);
  edited.restore();
  edited.restore();
  CHECK(edited.makespan(Placement(2, DeviceId{0})) == Nanoseconds{5});
}

}  // namespace
}  // namespace trainyard::test
