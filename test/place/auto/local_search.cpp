#include "trainyard/place/auto/local_search.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/auto/island.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// `first` of 1 ns on p0 makes two tensors of 10 bytes: a for `shortly` of 1 ns and b for `long` of 100 ns, both on p1.
/// The link has 1 B/ns. Each op can run on one device only.
Problem two_readers() {
  GraphBuilder builder{"readers"};
  builder.add({.name = "first", .times = {{"p0", Nanoseconds{1}}}, .outputs = {{"a", Bytes{10}}, {"b", Bytes{10}}}});
  builder.add({.name = "shortly", .times = {{"p1", Nanoseconds{1}}}, .inputs = {"a"}});
  builder.add({.name = "long", .times = {{"p1", Nanoseconds{100}}}, .inputs = {"b"}});
  return {std::move(builder).build(), make_cluster(test::full_mesh(2))};
}
Placement placement_of(const std::vector<std::size_t>& devices) {
  Placement placement;
  for (const std::size_t each : devices) placement.push_back(DeviceId{each});
  return placement;
}
const Placement kOfReaders = placement_of({0, 1, 1});

Schedule by_priority(Placement placement, std::vector<double> priority) {
  Schedule schedule{.placement = std::move(placement), .policy = Policy::priority};
  for (const double each : priority) schedule.priority.push_back(each);
  return schedule;
}

LocalSearch search_from(const Problem& problem, const std::vector<Clusters>& levels, Schedule start,
                        std::uint64_t evaluations) {
  LocalSearch search{problem, levels, false, std::move(start), Random{1}};
  search.run(Effort{{.evaluations = evaluations}, {}}, 0.01);
  return search;
}

TEST_CASE("under priorities a transfer that holds the critical one up is overtaken, which no strict order does") {
  const Problem problem = two_readers();
  const auto levels = cluster_levels(problem);
  // a crosses in [1, 11), b in [11, 21); `long` runs in [21, 121).
  const Schedule start = by_priority(kOfReaders, {3, 2, 1});
  REQUIRE(simulate(problem, start).makespan == Nanoseconds{121});
  // b crosses in [1, 11); `long` runs in [11, 111), `shortly` in [111, 112).
  const LocalSearch search = search_from(problem, levels, start, 50);
  CHECK(search.best_outcome() == Outcome{Bytes{0}, Nanoseconds{112}});
  CHECK(test::naive_simulate(problem, search.best()).makespan == Nanoseconds{112});
  // Under a strict order, links are fifo: b crosses in [11, 21) whichever reader comes first.
  const Schedule strict = in_started_order(problem, kOfReaders, simulate(problem, search.best()));
  CHECK(search_from(problem, levels, strict, 50).best_outcome().makespan == Nanoseconds{121});
}

TEST_CASE("under priorities an op that waits for a device comes before the one that it waits for") {
  // p0 runs `idle` and `before`, 1 ns each, and p1 runs `after`, 10 ns. It takes 12 ns with `idle` first, else 11.
  GraphBuilder builder{"turns"};
  builder.add({.name = "idle", .times = {{"p0", Nanoseconds{1}}}});
  builder.add({.name = "before", .times = {{"p0", Nanoseconds{1}}}, .outputs = {{"a", Bytes{0}}}});
  builder.add({.name = "after", .times = {{"p1", Nanoseconds{10}}}, .inputs = {"a"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const Schedule start = by_priority(placement_of({0, 0, 1}), {7, 7, 7});
  REQUIRE(simulate(problem, start).makespan == Nanoseconds{12});
  const auto levels = cluster_levels(problem);
  CHECK(search_from(problem, levels, start, 20).best_outcome().makespan == Nanoseconds{11});
}

TEST_CASE("a search under priorities never ends worse than it began, and says what the naive simulator says") {
  Random random{5};
  for (int round = 0; round < test::rounds(60); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 25});
    Placement placement;
    for (const OpId op : problem.ops()) {
      DeviceId device{random.below(problem.device_count())};
      while (!problem.can_run(op, device)) device = DeviceId{random.below(problem.device_count())};
      placement.push_back(device);
    }
    for (const GroupId group : problem.groups())
      for (const OpId op : problem.group_ops(group)) placement[op] = placement[problem.group_ops(group).front()];
    Schedule start = by_bottom_level(problem, placement);
    for (double& each : start.priority) each = static_cast<double>(random.below(4));  // many ties
    const auto levels = cluster_levels(problem);
    const LocalSearch search = search_from(problem, levels, start, 200);
    const Timeline timeline = test::naive_simulate(problem, search.best());
    CHECK(timeline.makespan == search.best_outcome().makespan);
    CHECK(timeline.makespan <= test::naive_simulate(problem, start).makespan);
    CHECK_NOTHROW(check_schedule(problem, search.best()));
  }
}

TEST_CASE("a search that begins anew from a strict order turns no priorities, of which that has none") {
  const Problem problem = two_readers();
  const auto levels = cluster_levels(problem);
  LocalSearch search = search_from(problem, levels, by_priority(kOfReaders, {3, 2, 1}), 1);
  search.restart(in_started_order(problem, kOfReaders, simulate(problem, Schedule{.placement = kOfReaders})));
  search.run(Effort{{.evaluations = 50}, {}}, 0.01);
  CHECK(test::naive_simulate(problem, search.best()).makespan == search.best_outcome().makespan);
}

TEST_CASE("an island that goes on under priorities keeps nothing back for windows, which are of strict orders") {
  const SearchGround ground{two_readers()};
  const Schedule strict =
      in_started_order(ground.problem, kOfReaders, simulate(ground.problem, Schedule{.placement = kOfReaders}));
  Island island{ground, strict, Random{3}};
  island.restart(by_priority(kOfReaders, {3, 2, 1.5}));
  CHECK(island.best().policy == Policy::strict);  // the new start is no better
  island.restart(by_priority(kOfReaders, {3, 1, 2}));
  CHECK(island.best().by_priority());
  island.run({.evaluations = 100}, {}, 0.01);
  CHECK(island.evaluations() >= 100);  // including those of path relinking
  CHECK(island.evaluations() <= 101);  // one more, for an order by bottom levels
  CHECK(island.best_outcome().makespan == Nanoseconds{112});
}

}  // namespace
}  // namespace trainyard
