#include "trainyard/place/fastt/dpos.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using test::Row;

namespace {

std::vector<std::int64_t> ranks_of(const Problem& problem, bool textual = false) {
  detail::DposEngine engine{problem, {.textual = textual}};
  engine.plan();
  std::vector<std::int64_t> ranks;
  for (const Nanoseconds rank : engine.ranks()) ranks.push_back(rank.count);
  return ranks;
}

std::vector<std::uint32_t> path_of(const Problem& problem, bool textual) {
  detail::DposEngine engine{problem, {.textual = textual}};
  engine.plan();
  return {engine.critical_path().begin(), engine.critical_path().end()};
}

std::int64_t planned(const Problem& problem, const DposRules& rules = {}) {
  return dpos(problem, {.rules = rules}).plan->makespan.count;
}

}  // namespace

TEST_CASE("DPOS: two branches on two devices, the critical path on one") {
  // Ranks: D 1; C 3 + 1 + 1 = 5; B 4 + 1 + 1 = 6; A 2 + 1 + 6 = 9. A, B and D run on p0. C starts on p1 at 2 + 1 = 3,
  // ends at 6, and its output is back at 7. B ends at 6; D [7,8]. One device would take 10.
  const Problem problem =
      test::make_problem({{{2, 2}, {4, 4}, {3, 3}, {1, 1}}, {{0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 3, 1}}});
  CHECK(ranks_of(problem) == std::vector<std::int64_t>{9, 6, 5, 1});
  CHECK(path_of(problem, false) == std::vector<std::uint32_t>{0, 1, 3});
  const Schedule schedule = dpos(problem);
  CHECK(schedule.plan->makespan == Nanoseconds{8});
  CHECK(test::rows_of(schedule) == std::vector<Row>{{0, 0}, {0, 2}, {1, 3}, {0, 7}});
}

TEST_CASE("DPOS on the ten tasks of Topcuoglu: ranks of maxima, 80 without the critical-path device and 87 with") {
  const Problem problem = test::make_problem(test::topcuoglu());
  CHECK(ranks_of(problem) == std::vector<std::int64_t>{123, 89, 95, 94, 80, 77, 53, 46, 54, 21});
  CHECK(planned(problem, {.pin = false}) == 80);
  CHECK(path_of(problem, true) == std::vector<std::uint32_t>{0, 2, 6, 9});
  CHECK(planned(problem, {.textual = true}) == 87);
}

TEST_CASE("DPOS on the ten tasks of Arabnejad: 127 with the critical-path device, 133 without") {
  const Problem problem = test::make_problem(test::arabnejad());
  CHECK(planned(problem) == 127);
  CHECK(planned(problem, {.pin = false}) == 133);
}

TEST_CASE("the critical path goes on where transfer and rank together are largest; by the text, where the rank is") {
  // x (1) feeds y (10) with a transfer of 0 and z (9) with one of 5: 10 against 14
  const Problem problem = test::make_problem({{{1, 1}, {10, 10}, {9, 9}}, {{0, 1, 0}, {0, 2, 5}}});
  CHECK(path_of(problem, false) == std::vector<std::uint32_t>{0, 2});
  CHECK(path_of(problem, true) == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("pinning is no good where speeds differ: the paper's bound does not hold there") {
  // On p0 the chain takes 1 + 10, on p1 10 + 1: 11 pinned; apart 1 + 1.
  const Problem problem = test::make_problem({{{1, 10}, {10, 1}}, {{0, 1, 0}}});
  CHECK(planned(problem) == 11);
  CHECK(planned(problem, {.pin = false}) == 2);
}

TEST_CASE("when the critical-path device is full the next one takes the rest of the path") {
  // A chain of four ops with 10 bytes of parameters each, on devices of 25: two and two
  GraphBuilder builder;
  for (int i = 0; i < 4; ++i)
    builder.add({.name = "op" + std::to_string(i),
                 .parameter_bytes = Bytes{10},
                 .times = {{"p0", Nanoseconds{2}}, {"p1", Nanoseconds{3}}, {"p2", Nanoseconds{4}}},
                 .after = i ? std::vector{"op" + std::to_string(i - 1)} : std::vector<std::string>{}});
  ClusterSpec cluster = test::full_mesh(3);
  for (Device& device : cluster.devices) device.memory = Bytes{25};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  CHECK(test::rows_of(dpos(problem)) == std::vector<Row>{{0, 0}, {0, 2}, {1, 4}, {1, 7}});
}

TEST_CASE("cumulative memory is never released: outputs add up") {
  // A chain of four ops with outputs of 10, on devices of 25: two ops each; by the ledger, any number
  test::Instance instance{{{1, 1}, {1, 1}, {1, 1}, {1, 1}}, {{0, 1, 10}, {1, 2, 10}, {2, 3, 10}}};
  const Problem free = test::make_problem(instance);
  ClusterSpec cluster = free.cluster().spec();
  for (Device& device : cluster.devices) device.memory = Bytes{25};
  const Problem problem{free.graph(), make_cluster(std::move(cluster))};
  const auto devices = [&](bool cumulative) {
    std::vector<std::size_t> result;
    for (const DeviceId device : dpos(problem, {.rules = {.cumulative = cumulative}}).placement)
      result.push_back(device.index());
    return result;
  };
  CHECK(devices(false) == std::vector<std::size_t>{0, 0, 0, 0});
  CHECK(devices(true) == std::vector<std::size_t>{0, 0, 1, 1});
}

TEST_CASE("order enforcement: priorities fall with the planned start") {
  const Problem problem = test::make_problem(test::topcuoglu());
  const Schedule schedule = dpos(problem);
  CHECK(schedule.policy == Policy::priority);
  for (const OpId a : problem.ops())
    for (const OpId b : problem.ops())
      if (schedule.plan->start[a] < schedule.plan->start[b]) CHECK(schedule.priority[a] > schedule.priority[b]);
}

TEST_CASE("on devices that are alike the plan is within FastT's bound, pinned or not, on random graphs") {
  // Bound: sum of w / devices + longest chain of w + longest chain of c, with op times w and transfer times c
  Random random{5};
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    const auto ops = static_cast<std::size_t>(random.between(1, 25));
    const auto devices = static_cast<std::size_t>(random.between(1, 5));
    test::Instance instance;
    for (std::size_t i = 0; i < ops; ++i) instance.times.emplace_back(devices, random.between(0, 20));
    std::vector<std::int64_t> work(ops, 0), crossing(ops, 0);
    std::int64_t sum = 0, longest_work = 0, longest_crossing = 0;
    for (std::size_t i = 0; i < ops; ++i) {
      for (std::size_t j = 0; j < i; ++j)
        if (random.below(4) == 0) {
          const std::int64_t time = random.between(0, 30);
          instance.edges.push_back({j, i, time});
          work[i] = std::max(work[i], work[j]);
          crossing[i] = std::max(crossing[i], crossing[j] + time);
        }
      work[i] += instance.times[i][0];
      sum += instance.times[i][0];
      longest_work = std::max(longest_work, work[i]);
      longest_crossing = std::max(longest_crossing, crossing[i]);
    }
    const Problem problem = test::make_problem(instance);
    for (const bool pin : {false, true})
      for (const bool textual : {false, true}) {
        const auto bound = static_cast<double>(sum) / static_cast<double>(devices) +
                           static_cast<double>(longest_work + longest_crossing);
        CHECK(static_cast<double>(planned(problem, {.pin = pin, .textual = textual})) <= bound);
      }
  }
}

TEST_CASE("DPOS's plan runs one op at a time on a device, each after its inputs, and repeats, on random problems") {
  Random random{12};
  for (int round = 0; round < test::rounds(100); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 30, .most_devices = 4});
    const Graph& graph = problem.graph();
    const Schedule schedule = dpos(problem);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    CHECK(schedule == dpos(problem));
    const auto end = [&](OpId op) { return schedule.plan->start[op] + problem.duration(op, schedule.placement[op]); };
    for (const OpId op : problem.ops()) {
      CHECK(end(op) <= schedule.plan->makespan);
      for (const TensorId tensor : graph.inputs(op)) {
        const OpId producer = graph.producer(tensor);
        const DeviceId from = schedule.placement[producer], to = schedule.placement[op];
        const Nanoseconds crossing = from == to ? Nanoseconds{0} : problem.transfer_time(tensor, from, to);
        CHECK(schedule.plan->start[op] >= end(producer) + crossing);
      }
      for (const OpId earlier : graph.after(op)) CHECK(schedule.plan->start[op] >= end(earlier));
      for (const OpId other : problem.ops())
        if (other < op && schedule.placement[other] == schedule.placement[op] && end(op) > schedule.plan->start[op] &&
            end(other) > schedule.plan->start[other])
          CHECK((schedule.plan->start[op] >= end(other) || schedule.plan->start[other] >= end(op)));
    }
  }
}
