#include <doctest/doctest.h>

#include "simulate/best_schedule.hpp"
#include "simulate/small_instance.hpp"
#include "trainyard/simulate/model/run_events.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

Timeline run_as_events(const Problem& problem, const Schedule& schedule) {
  if (schedule.policy == Policy::priority) return run_events(problem, schedule.placement, Priority{schedule.priority});
  if (schedule.policy == Policy::strict) return run_events(problem, schedule.placement, Strict{problem, schedule});
  return run_events(problem, schedule.placement, Fifo{});
}

/// Timeline of simulate(), checked to be that of the event loop.
Timeline run(const Problem& problem, const Schedule& schedule) {
  Timeline timeline = simulate(problem, schedule);
  CHECK(run_as_events(problem, schedule) == timeline);
  return timeline;
}

std::int64_t makespan(const SmallInstance& instance, ClusterSpec cluster) {
  return run(problem_of(instance, std::move(cluster)), schedule_of(instance)).makespan.count;
}

ClusterSpec unshared(std::size_t devices) { return linked(devices, Duplex::full, Sharing::none); }
ClusterSpec half_duplex(std::size_t devices) { return linked(devices, Duplex::half); }

const SmallInstance kFiveOps{{{0, 2}, {0, 3}, {1, 4}, {1, 2}, {0, 1}},
                             {{0, {1}, 5}, {0, {2}, 1}, {1, {3}, 2}, {2, {4}, 3}, {3, {4}, 1}}};

TEST_CASE("five ops on two devices: the whole timeline") {
  const Timeline timeline = run(problem_of(kFiveOps, linked(2)), schedule_of(kFiveOps));
  CHECK(timeline.ops[OpId{0}] == span_of(0, 2));
  CHECK(timeline.ops[OpId{1}] == span_of(2, 5));
  CHECK(timeline.ops[OpId{2}] == span_of(3, 7));    // its byte crosses from 2 to 3
  CHECK(timeline.ops[OpId{3}] == span_of(7, 9));    // arrives at 5 + 2, when the device is free
  CHECK(timeline.ops[OpId{4}] == span_of(11, 12));  // 7 + 3 = 10, then the second transfer: 10 + 1
  const auto transfer = [](std::size_t tensor, std::size_t from, std::size_t to, std::int64_t bytes, std::int64_t ready,
                           std::int64_t start, std::int64_t end) {
    return Transfer{TensorId{tensor},   DeviceId{from},     DeviceId{to},    Bytes{bytes},
                    Nanoseconds{ready}, Nanoseconds{start}, Nanoseconds{end}};
  };
  CHECK(timeline.transfers == std::vector<Transfer>{transfer(1, 0, 1, 1, 2, 2, 3), transfer(2, 0, 1, 2, 5, 5, 7),
                                                    transfer(3, 1, 0, 3, 7, 7, 10), transfer(4, 1, 0, 1, 9, 10, 11)});
  CHECK(timeline.makespan == Nanoseconds{12});
  CHECK(timeline.devices[DeviceId{0}].busy == Nanoseconds{6});  // 2 + 3 + 1
  CHECK(timeline.devices[DeviceId{1}].busy == Nanoseconds{6});  // 4 + 2
  // d0 is idle from 5 to 11, with a transfer under way all the time: 6.
  CHECK(timeline.devices[DeviceId{0}].exposed_communication == Nanoseconds{6});
  // d1 is idle from 0 to 3 and from 9 on. Transfers are under way from 2 to 3 and from 9 to 11: 1 + 2.
  CHECK(timeline.devices[DeviceId{1}].exposed_communication == Nanoseconds{3});
  CHECK(timeline.channels[ChannelId{0}] == ChannelUse{Nanoseconds{3}, Bytes{3}});  // 1 + 2
  CHECK(timeline.channels[ChannelId{1}] == ChannelUse{Nanoseconds{4}, Bytes{4}});  // 3 + 1
  CHECK(timeline.fits());
}

TEST_CASE("five ops on two devices under each kind of link") {
  CHECK(makespan(kFiveOps, egresses(2)) == 12);
  CHECK(makespan(kFiveOps, linked(2)) == 12);
  CHECK(makespan(kFiveOps, unshared(2)) == 11);  // the last byte does not wait: 9 + 1 = 10, then 1
}

TEST_CASE("five ops placed and ordered as well as possible on two devices take 9") {
  CHECK(least_makespan(problem_of(kFiveOps, linked(2))) == Nanoseconds{9});
}

TEST_CASE("one tensor for two devices crosses a source bus twice, and two links at once") {
  const SmallInstance fork{{{0, 1}, {1, 1}, {2, 1}}, {{0, {1, 2}, 4}}};
  CHECK(makespan(fork, egresses(3)) == 10);       // 1 + 4 + 4 + 1
  CHECK(makespan(fork, linked(3)) == 6);          // 1 + 4 + 1
  CHECK(makespan(fork, unshared(3)) == 6);        // 1 + 4 + 1
  CHECK(makespan(fork, egresses(3, true)) == 6);  // one broadcast: 1 + 4 + 1
}

TEST_CASE("two tensors on one link wait for each other") {
  const SmallInstance pairs{{{0, 1}, {0, 1}, {1, 1}, {1, 1}}, {{0, {2}, 4}, {1, {3}, 4}}};
  CHECK(makespan(pairs, egresses(2)) == 10);  // 1 + 4 + 4 + 1
  CHECK(makespan(pairs, linked(2)) == 10);
  CHECK(makespan(pairs, unshared(2)) == 7);  // the second leaves at 2, arrives at 6, and runs until 7
}

TEST_CASE("a tensor wanted by two ops on one device crosses the link once") {
  const SmallInstance shared{{{0, 1}, {1, 1}, {1, 1}}, {{0, {1, 2}, 4}}};
  const SmallInstance per_consumer{shared.ops, {{0, {1}, 4}, {0, {2}, 4}}};
  for (const ClusterSpec& cluster : {egresses(2), linked(2)}) {
    CHECK(makespan(shared, cluster) == 7);         // 1 + 4 + 1 + 1
    CHECK(makespan(per_consumer, cluster) == 10);  // 1 + 4 + 4 + 1
  }
}

TEST_CASE("opposite directions share a link only where it is half duplex") {
  const SmallInstance exchange{{{0, 1}, {1, 1}, {1, 1}, {0, 1}}, {{0, {2}, 4}, {1, {3}, 4}}};
  CHECK(makespan(exchange, egresses(2)) == 6);      // 1 + 4 + 1
  CHECK(makespan(exchange, linked(2)) == 6);        // 1 + 4 + 1
  CHECK(makespan(exchange, half_duplex(2)) == 10);  // 1 + 4 + 4 + 1
}

TEST_CASE("a priority saves what fifo loses") {
  const SmallInstance instance{{{0, 1}, {0, 5}, {0, 1}, {1, 4}}, {{0, {1}, 0}, {0, {2}, 0}, {2, {3}, 1}}};
  const Problem problem = problem_of(instance, linked(2));
  Schedule schedule = schedule_of(instance);
  CHECK(run(problem, schedule).makespan == Nanoseconds{12});  // 1 + 5 + 1 + 1 + 4
  schedule.policy = Policy::priority;
  schedule.priority = IdMap<OpId, double>(std::vector<double>{0, 0, 1, 0});
  CHECK(run(problem, schedule).makespan == Nanoseconds{7});  // 1 + 1 + 1 + 4
  schedule.policy = Policy::strict;
  schedule.order =
      IdMap<DeviceId, std::vector<OpId>>(std::vector<std::vector<OpId>>{{OpId{0}, OpId{2}, OpId{1}}, {OpId{3}}});
  CHECK(run(problem, schedule).makespan == Nanoseconds{7});
}

TEST_CASE("ops that become ready at the same time run by id") {
  const SmallInstance instance{{{0, 1}, {1, 3}, {1, 2}, {1, 2}}, {{0, {2}, 2}, {1, {3}, 0}}};
  const Timeline timeline = run(problem_of(instance, linked(2)), schedule_of(instance));
  CHECK(timeline.ops[OpId{2}] == span_of(3, 5));  // ready at 1 + 2
  CHECK(timeline.ops[OpId{3}] == span_of(5, 7));  // ready at 3
  CHECK(timeline.makespan == Nanoseconds{7});
}

// A chain of five ops of 1, and two ops of 4 that depend on nothing (ids 5 and 6).
const SmallInstance kChainAndTwo{{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 4}, {0, 4}},
                                 {{0, {1}, 1}, {1, {2}, 1}, {2, {3}, 1}, {3, {4}, 1}}};

TEST_CASE("a chain and two long ops: each placement by hand") {
  const Problem problem = problem_of(kChainAndTwo, linked(2));
  const auto take = [&](const Schedule& schedule) { return run(problem, schedule).makespan.count; };
  CHECK(take(placed({0, 0, 0, 0, 0, 0, 0})) == 13);  // 5 + 4 + 4
  CHECK(take(placed({0, 0, 0, 0, 0, 0, 1})) == 9);   // 5 + 4
  CHECK(take(placed({0, 0, 0, 0, 0, 1, 1})) == 8);   // 4 + 4
  Schedule alternate = placed({0, 1, 0, 1, 0, 0, 1});
  alternate.policy = Policy::priority;
  // Chain first: its second op waits for the long op that starts on d1 at 0: 4, then 4 ops and 3 transfers.
  alternate.priority = IdMap<OpId, double>(std::vector<double>{1, 1, 1, 1, 1, 0, 0});
  CHECK(take(alternate) == 11);
  // Long ops first: 4, then 5 ops and 4 transfers.
  alternate.priority = IdMap<OpId, double>(std::vector<double>{0, 0, 0, 0, 0, 1, 1});
  CHECK(take(alternate) == 13);
}

TEST_CASE("a chain and two long ops: the best placements and orders") {
  CHECK(least_makespan(problem_of(kChainAndTwo, linked(2))) == Nanoseconds{7});  // 13 of work on two: at least 7
  CHECK(least_makespan(problem_of(kChainAndTwo, linked(3))) == Nanoseconds{5});  // the chain alone: 5
}

}  // namespace
}  // namespace trainyard::test
