#include "trainyard/io/formats/schedule_file.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <sstream>
#include <string>

#include "io/bad_inputs.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"

using namespace trainyard;

namespace {

Problem schedule_problem() {
  return {parse_graph(test::kToyGraph, "toy.json"), make_cluster(parse_cluster(test::kToyCluster, "pair.toml"))};
}

Schedule parsed(const std::string& fields) {
  return parse_schedule(
      "{\"format\": \"trainyard-schedule/1\", \"placement\": {\"a\": \"gpu0\", \"b\": \"gpu0\", \"c\": "
      "\"gpu1\"}" +
          fields + "}",
      "s.json", schedule_problem());
}

}  // namespace

TEST_CASE("a schedule needs nothing but a placement") {
  const Schedule schedule = parsed("");
  CHECK(schedule.policy == Policy::fifo);
  CHECK(schedule.placement == Placement{std::vector{DeviceId{0}, DeviceId{0}, DeviceId{1}}});
}

TEST_CASE("an order means strict and a priority means priority, unless the policy says otherwise") {
  CHECK(parsed(R"(, "order": {"gpu0": ["a", "b"], "gpu1": ["c"]})").policy == Policy::strict);
  CHECK(parsed(R"(, "priority": {"b": 2.5})").policy == Policy::priority);
  CHECK(parsed(R"(, "priority": {"b": 2.5}, "policy": "fifo")").policy == Policy::fifo);
  CHECK(parsed(R"(, "priority": {"b": 2.5})").priority[OpId{1}] == 2.5);
  CHECK(parsed(R"(, "priority": {"b": 2.5})").priority[OpId{0}] == 0);
}

TEST_CASE("what a schedule says of its making is kept or passed over") {
  const Schedule schedule = parsed(
      R"(, "graph": "renamed", "cluster": "renamed", "splits": [], "predicted": {"makespan_ns": 5, "fits": true},
         "placer": {"name": "heft", "options": {"a": "b"}, "seed": 18446744073709551615, "seconds": 0.5}, "comment": "x",
         "planned": {"makespan_ns": 9, "start_ns": {"a": 0, "b": 1, "c": 2}})");
  CHECK(schedule.placer == "heft");
  CHECK(schedule.seed == 18446744073709551615u);
  REQUIRE(schedule.plan);
  CHECK(schedule.plan->makespan == Nanoseconds{9});
  CHECK(schedule.plan->start[OpId{2}] == Nanoseconds{2});
}

TEST_CASE("a rule of the caller's own is not written as one of the policies") {
  Schedule schedule = parsed("");
  schedule.rule = OwnRule{"frees-most", nullptr};
  std::ostringstream out;
  CHECK_THROWS_WITH_AS(write_schedule(schedule, schedule_problem(), nullptr, out),
                       "a schedule file supports the policies fifo, priority and strict, but not the rule 'frees-most'",
                       InputError);
  CHECK(out.str().empty());
}

TEST_CASE("what no reader would take is not written") {
  const Problem problem = schedule_problem();
  const auto refused = [&](const auto& change) {
    Schedule schedule = parsed("");
    change(schedule);
    std::ostringstream out;
    const std::string code = test::code_of([&] { write_schedule(schedule, problem, nullptr, out); });
    CHECK(out.str().empty() == !code.empty());
    return code;
  };
  CHECK(refused([](Schedule&) {}) == "");
  CHECK(refused([](Schedule& s) { s.placement = Placement(3); }) == "not-placed");  // no device for any op
  CHECK(refused([](Schedule& s) { s.placement = Placement(2, DeviceId{0}); }) == "size");
  CHECK(refused([](Schedule& s) { s.placement[OpId{1}] = DeviceId{7}; }) == "unknown-device");
  CHECK(refused([](Schedule& s) {
          s.policy = Policy::priority;
          s.priority.assign(3, std::numeric_limits<double>::quiet_NaN());
        }) == "not-a-number");
  CHECK(refused([](Schedule& s) { s.plan = Plan{Nanoseconds{5}, IdMap<OpId, Nanoseconds>(2)}; }) == "size");
  CHECK(refused([](Schedule& s) { s.plan = Plan{Nanoseconds{-5}, IdMap<OpId, Nanoseconds>(3)}; }) == "range");
  CHECK(refused([](Schedule& s) {
          s.plan = Plan{Nanoseconds{5}, IdMap<OpId, Nanoseconds>(3, kLongestTime + Nanoseconds{1})};
        }) == "range");
  CHECK(refused([](Schedule& s) { s.order.assign(2, {OpId{9}}); }) == "order");  // an order with the policy fifo
}

TEST_CASE("a written schedule is one line per op") {
  const Problem problem = schedule_problem();
  Schedule schedule = parsed(R"(, "order": {"gpu0": ["a", "b"], "gpu1": ["c"]})");
  schedule.placer = "heft";
  schedule.seed = 1;
  const SchedulePrediction prediction{Nanoseconds{8004}, Nanoseconds{3000}, true};
  std::ostringstream out;
  write_schedule(schedule, problem, &prediction, out);
  CHECK(out.str() == R"({"format": "trainyard-schedule/1", "graph": "toy", "cluster": "pair", "policy": "strict",
 "placement": {
  "a": "gpu0",
  "b": "gpu0",
  "c": "gpu1"},
 "order": {
  "gpu0": ["a", "b"],
  "gpu1": ["c"]},
 "splits": [],
 "placer": {"name": "heft", "seed": 1},
 "predicted": {"makespan_ns": 8004, "lower_bound_ns": 3000, "fits": true}}
)");
}
