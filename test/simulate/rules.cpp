#include <doctest/doctest.h>

#include "simulate/small_instance.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

TEST_CASE("a device with a gap stays blocked, and its results are there at the end of the op") {
  const SmallInstance instance{{{0, 2}, {0, 3}, {1, 1}}, {{0, {2}, 4}}};
  ClusterSpec cluster = linked(2);
  cluster.devices[0].gap = Nanoseconds{10};
  const Timeline timeline = simulate(problem_of(instance, cluster), schedule_of(instance));
  CHECK(timeline.ops[OpId{1}] == span_of(12, 15));  // 2 + 10
  CHECK(timeline.ops[OpId{2}] == span_of(6, 7));    // 2 + 4: the transfer does not wait for the gap
  CHECK(timeline.makespan == Nanoseconds{15});      // the end of the last op, not of its gap
  CHECK(timeline.devices[DeviceId{0}].busy == Nanoseconds{5});
}

TEST_CASE("an op of zero duration leaves no gap behind it") {
  const SmallInstance instance{{{0, 0}, {0, 3}}, {{0, {1}, 4}}};
  ClusterSpec cluster = linked(1);
  cluster.devices[0].gap = Nanoseconds{10};
  CHECK(simulate(problem_of(instance, cluster), schedule_of(instance)).makespan == Nanoseconds{3});
}

TEST_CASE("a link with a gap carries the next transfer that much later") {
  const SmallInstance instance{{{0, 1}, {1, 1}, {1, 1}}, {{0, {1}, 4}, {0, {2}, 4}}};
  ClusterSpec cluster = linked(2);
  cluster.links[0].gap = Nanoseconds{10};
  const Timeline timeline = simulate(problem_of(instance, cluster), schedule_of(instance));
  CHECK(timeline.ops[OpId{1}] == span_of(5, 6));    // 1 + 4
  CHECK(timeline.ops[OpId{2}] == span_of(19, 20));  // 5 + 10 + 4
}

TEST_CASE("a chain of ops of zero duration ends at the moment it starts, on a busy device and in a strict order") {
  // Op 0 takes 5 on d0. Ops 1 -> 2 -> 3 take no time, also on d0. Op 4 on d1 needs op 3.
  const SmallInstance instance{{{0, 5}, {0, 0}, {0, 0}, {0, 0}, {1, 2}}, {{1, {2}, 0}, {2, {3}, 0}, {3, {4}, 3}}};
  const Problem problem = problem_of(instance, linked(2));
  Schedule schedule = schedule_of(instance);
  CHECK(simulate(problem, schedule).ops[OpId{4}] == span_of(3, 5));
  schedule.policy = Policy::strict;
  schedule.order = IdMap<DeviceId, std::vector<OpId>>(
      std::vector<std::vector<OpId>>{{OpId{0}, OpId{3}, OpId{2}, OpId{1}}, {OpId{4}}});
  CHECK(simulate(problem, schedule).ops[OpId{4}] == span_of(3, 5));
}

TEST_CASE("a chain of a hundred thousand ops of zero duration does not exhaust the stack") {
  SmallInstance instance;
  constexpr std::size_t kOps = 100'000;
  for (std::size_t i = 0; i < kOps; ++i) {
    instance.ops.push_back({0, 0});
    if (i + 1 < kOps) instance.tensors.push_back({i, {i + 1}, 0});
  }
  CHECK(simulate(problem_of(instance, linked(1)), schedule_of(instance)).makespan == Nanoseconds{0});
}

TEST_CASE("a transfer over two links holds both, and waits until it is first on both") {
  // d0 - s - d1 and d2 - s - d1: both routes to d1 share the link s - d1.
  ClusterSpec cluster = linked(3);
  cluster.switches = {"s"};
  cluster.links.clear();
  for (const char* device : {"d0", "d1", "d2"}) {
    Link link;
    link.name = std::string("l") + device;
    link.from = device;
    link.to = "s";
    link.bandwidth = kBytePerNanosecond;
    link.latency = Nanoseconds{1};
    cluster.links.push_back(link);
  }
  // 0 on d0 ends at 1 and sends 4 bytes to 2 on d1. 1 on d2 ends at 2 and sends 4 bytes to 3 on d1, then to 4 on d0.
  const SmallInstance instance{{{0, 1}, {2, 2}, {1, 1}, {1, 1}, {0, 1}}, {{0, {2}, 4}, {1, {3}, 4}, {1, {4}, 4}}};
  const Timeline timeline = simulate(problem_of(instance, cluster), schedule_of(instance));
  CHECK(timeline.ops[OpId{2}] == span_of(7, 8));    // 1 + (1 + 1 + 4)
  CHECK(timeline.ops[OpId{3}] == span_of(13, 14));  // 7 + 6
  CHECK(timeline.ops[OpId{4}] == span_of(19, 20));  // d0's link is free, but d2's is busy until 13: 13 + 6
}

TEST_CASE("a link picks the transfer with the most urgent consumer") {
  // Both tensors of op 0 are ready at 1. The second one has the most urgent consumer, op 3.
  const SmallInstance instance{{{0, 1}, {1, 1}, {1, 1}, {1, 1}}, {{0, {1}, 4}, {0, {2, 3}, 2}}};
  Schedule schedule = schedule_of(instance);
  schedule.policy = Policy::priority;
  schedule.priority = IdMap<OpId, double>(std::vector<double>{0, 1, 0, 2});
  const Timeline timeline = simulate(problem_of(instance, linked(2)), schedule);
  CHECK(timeline.transfers[1].start == Nanoseconds{1});
  CHECK(timeline.transfers[0].start == Nanoseconds{3});  // 1 + 2
  CHECK(timeline.ops[OpId{3}] == span_of(3, 4));
  CHECK(timeline.ops[OpId{2}] == span_of(4, 5));
  CHECK(timeline.ops[OpId{1}] == span_of(7, 8));  // 3 + 4
}

TEST_CASE("a device does not idle for an urgent op that is not ready") {
  const SmallInstance instance{{{0, 2}, {1, 1}, {1, 5}}, {{0, {1}, 0}}};
  Schedule schedule = schedule_of(instance);
  schedule.policy = Policy::priority;
  schedule.priority = IdMap<OpId, double>(std::vector<double>{0, 9, 0});
  CHECK(simulate(problem_of(instance, linked(2)), schedule).ops[OpId{1}] == span_of(5, 6));
}

TEST_CASE("a strict order waits for its next op") {
  const SmallInstance instance{{{0, 2}, {1, 1}, {1, 5}}, {{0, {1}, 0}}};
  Schedule schedule = schedule_of(instance);
  schedule.policy = Policy::strict;
  schedule.order = IdMap<DeviceId, std::vector<OpId>>(std::vector<std::vector<OpId>>{{OpId{0}}, {OpId{1}, OpId{2}}});
  const Timeline timeline = simulate(problem_of(instance, linked(2)), schedule);
  CHECK(timeline.ops[OpId{1}] == span_of(2, 3));
  CHECK(timeline.ops[OpId{2}] == span_of(3, 8));
}

TEST_CASE("a broadcast names the lowest destination and the others, and holds the bus once") {
  const SmallInstance instance{{{1, 1}, {3, 1}, {0, 1}, {2, 1}, {3, 1}}, {{0, {1, 2, 3, 4}, 4}}};
  const Timeline timeline = simulate(problem_of(instance, egresses(4, true)), schedule_of(instance));
  REQUIRE(timeline.transfers.size() == 1);
  CHECK(timeline.transfers[0].to == DeviceId{0});
  CHECK(timeline.transfers[0].also_to == std::vector<DeviceId>{DeviceId{2}, DeviceId{3}});
  CHECK(timeline.makespan == Nanoseconds{7});  // 1 + 4, then two ops of 1 on d3
  CHECK(timeline.channels[ChannelId{1}] == ChannelUse{Nanoseconds{4}, Bytes{4}});
}

TEST_CASE("a control edge across devices costs nothing") {
  GraphBuilder builder{"control"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{3}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{2}}}, .after = {"a"}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(2))};
  const Timeline timeline = simulate(problem, placed({0, 1}));
  CHECK(timeline.ops[OpId{1}] == span_of(3, 5));
  CHECK(timeline.transfers.empty());
}

TEST_CASE("a schedule that is not one for the problem is refused") {
  const SmallInstance instance{{{0, 1}, {0, 1}}, {}};
  const Problem problem = problem_of(instance, linked(1));
  CHECK_THROWS_AS(simulate(problem, placed({0})), InputError);
  CHECK_THROWS_AS(simulate(problem, placed({0, 1})), InputError);
}

}  // namespace
}  // namespace trainyard::test
