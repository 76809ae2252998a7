#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "simulate/small_instance.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "support/written_out.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/simulate/critical_path.hpp"
#include "trainyard/simulate/delta.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

TEST_CASE("the engine and the plain rules agree on thousands of random problems with collectives") {
  std::size_t parts = 0, waited = 0, flows = 0, urgent = 0, by_priority = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(20'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(1117, seed);
    RandomProblemOptions options{.collectives = 3};
    if (seed % 4 == 0) options.fair_links = 0.5;
    const Problem problem = random_problem(random, options);
    Schedule schedule = random_schedule(random, problem);
    schedule.urgent_links = schedule.policy == Policy::strict && !schedule.priority.empty();
    urgent += schedule.urgent_links;
    by_priority += schedule.by_priority();
    Timeline timeline = simulate(problem, schedule);
    const Timeline expected = naive_simulate(problem, schedule);
    for (DeviceUse& use : timeline.devices) use.out_of_memory.reset();  // naive_simulate() does not set it
    REQUIRE(timeline.ops == expected.ops);
    REQUIRE(timeline.transfers == expected.transfers);
    REQUIRE(timeline == expected);
    REQUIRE(timeline.makespan <= problem.horizon());
    for (const Transfer& transfer : timeline.transfers) {
      const bool part = schedule.placement[problem.graph().producer(transfer.tensor)] == transfer.to;
      parts += part;
      waited += part && transfer.start > transfer.ready;
      flows += part && problem.cluster().has_fair_channels();
    }
    // The critical path leads from the makespan back to 0, without a hole.
    const auto path = critical_path(problem, schedule, timeline);
    REQUIRE(!path.empty());
    REQUIRE(path.front().cause == PathStep::Cause::start);
  }
  CHECK(parts > test::rounds(5'000U));
  CHECK(waited > test::rounds(500U));
  CHECK(flows > test::rounds(500U));
  CHECK(urgent > test::rounds(2'000U));
  CHECK(by_priority > test::rounds(2'000U));
}

/// Ranks of a collective: rank r is on device r and makes an array of task.bytes at r * apart ns. Afterwards it holds
/// its part of the result, of `after` bytes.
struct Ranks {
  std::size_t count = 4;
  CollectiveTask task{CollectiveKind::all_reduce, Bytes{8}};
  Bytes after{8};
  std::int64_t apart = 0;

  Graph graph() const {
    GraphBuilder builder{"ranks"};
    OpSpec collective{.name = "sum", .collective = task};
    for (std::size_t r = 0; r < count; ++r) {
      const std::string rank = std::to_string(r);
      const auto time = static_cast<std::int64_t>(r) * apart;
      builder.add(
          {.name = "make" + rank, .times = {{"gpu", Nanoseconds{time}}}, .outputs = {{"array" + rank, task.bytes}}});
      collective.after.push_back("make" + rank);
    }
    builder.add(collective);
    for (std::size_t r = 0; r < count; ++r) {
      const std::string rank = std::to_string(r);
      builder.add({.name = "have" + rank,
                   .times = {{"gpu", Nanoseconds{0}}},
                   .inputs = {"array" + rank},
                   .outputs = {{"result" + rank, after, true}},
                   .after = {"sum"}});
    }
    return std::move(builder).build();
  }
  Placement placement() const {
    Placement placement;
    for (std::size_t r = 0; r < count; ++r) placement.push_back(DeviceId{r});
    placement.push_back(DeviceId{0});
    for (std::size_t r = 0; r < count; ++r) placement.push_back(DeviceId{r});
    return placement;
  }
  Timeline run(ClusterSpec spec) const {
    return simulate(Problem{graph(), make_cluster(std::move(spec))}, {.placement = placement()});
  }
};

/// A link for each pair of devices: 1 ns of latency, then 1 ns per byte.
ClusterSpec mesh(std::size_t devices, Duplex duplex = Duplex::full) {
  ClusterSpec spec = linked(devices, duplex);
  for (Link& link : spec.links) link.latency = Nanoseconds{1};
  return spec;
}

std::int64_t time_of(CollectiveKind kind, std::int64_t bytes, std::size_t ranks = 4) {
  return Ranks{.count = ranks, .task = {kind, Bytes{bytes}}}.run(mesh(ranks)).makespan.count;
}

TEST_CASE("8 bytes among 4 devices: the steps of each collective, of a nanosecond's latency and 2 bytes") {
  CHECK(time_of(CollectiveKind::all_reduce, 8) == 2 * 3 * (1 + 2));
  CHECK(time_of(CollectiveKind::all_gather, 8) == 3 * (1 + 2));
  CHECK(time_of(CollectiveKind::reduce_scatter, 8) == 3 * (1 + 2));
  CHECK(time_of(CollectiveKind::all_to_all, 8) == 3 * (1 + 2));
  CHECK(time_of(CollectiveKind::shift, 8) == 1 + 8);
  // Along a chain of 3 links, in sqrt(2 x 8 / 1) = 4 pieces of 2 bytes: the last leaves after 3 steps and takes 3 more.
  CHECK(time_of(CollectiveKind::broadcast, 8) == (3 + 3) * (1 + 2));
  CHECK(time_of(CollectiveKind::broadcast, 8, 2) == 1 + 8);
  // Parts of 9 / 4 bytes are rounded up to 3.
  CHECK(time_of(CollectiveKind::all_gather, 9) == 3 * (1 + 3));
  CHECK(time_of(CollectiveKind::all_reduce, 8, 1) == 0);
  CHECK_THROWS_AS(collective_run(problem_of({{{0, 1}}, {}}, linked(2)), {}, {}), InputError);
}

TEST_CASE("the two hops of a half-duplex link, and those over one bus, take turns in each step") {
  const Ranks two{.count = 2};
  CHECK(two.run(mesh(2)).makespan == Nanoseconds{2 * (1 + 4)});
  CHECK(two.run(mesh(2, Duplex::half)).makespan == Nanoseconds{2 * 2 * (1 + 4)});
  // On a fair link, a step takes the longer of one hop alone, 1 + 4, and both hops' bytes, 2 x 4.
  ClusterSpec fair = mesh(2, Duplex::half);
  fair.links[0].sharing = Sharing::fair;
  CHECK(two.run(std::move(fair)).makespan == Nanoseconds{2 * 2 * 4});
}

TEST_CASE("over hosts with a network card for each device, two rings send half of the bytes each") {
  FabricSpec fabric{.hosts = 4,
                    .devices_per_host = 2,
                    .port_bandwidth = BytesPerSecond{2e9},
                    .port_latency = Nanoseconds{1},
                    .nics_per_host = 2,
                    .nic_bandwidth = BytesPerSecond{1e9},
                    .nic_latency = Nanoseconds{2},
                    .hosts_per_leaf = 4};
  const auto time = [&](const Ranks& ranks) { return ranks.run(cluster_of(fabric)).makespan.count; };
  const Ranks all{.count = 8, .task = {CollectiveKind::all_reduce, Bytes{160}}};
  // Parts of 160 / 16 = 10 bytes: a step takes 4 + 10 over network cards, more than 2 + 10 / 2 within a host.
  CHECK(time({.count = 8, .task = {CollectiveKind::reduce_scatter, Bytes{160}}}) == 7 * 14);
  // By trees: latencies of two levels of hosts (4) and one more device (2), up and down, and bytes of 16 parts of 10.
  CHECK(time(all) == 2 * (2 * 4 + 2) + 16 * 10);
  // One card per host: a single ring, with parts of 20.
  fabric.nics_per_host = 1;
  CHECK(time(all) == std::min(2 * 7 * (4 + 20), 2 * (2 * 4 + 2) + 16 * 20));
  CHECK(time(all) == 2 * 7 * (4 + 20));
  // Three devices, only one of them on the second host: a single ring, with parts of 33 / 3 = 11.
  fabric.nics_per_host = 2;
  CHECK(time({.count = 3, .task = {CollectiveKind::all_reduce, Bytes{33}}}) == 2 * 2 * (4 + 11));

  // Each ring leaves and enters each host once over its own card, which carries 2 x 7 parts of 10 each way.
  const Timeline timeline = all.run(cluster_of(fabric));
  const Cluster cluster = make_cluster(cluster_of(fabric));
  for (const DeviceId device : cluster.devices()) {
    const DeviceId next{(device.index() + 2) % 8};
    for (const ChannelId channel : cluster.route(device, next).channels)
      CHECK(timeline.channels[channel].bytes == Bytes{2 * 7 * 10});
  }
}

TEST_CASE("the engine and the plain rules agree on collectives over fabrics") {
  const std::vector<FabricSpec> fabrics = all_fabrics();
  std::size_t several = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(3'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(1119, seed);
    const Cluster cluster = make_cluster(cluster_of(fabrics[seed % fabrics.size()]));
    const std::size_t devices = cluster.device_count();
    Ranks ranks{.count = 1 + random.below(devices), .task = {}, .apart = static_cast<std::int64_t>(random.below(3))};
    if (random.below(2) == 0) ranks.count = devices;
    const CollectiveKind kinds[] = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::all_to_all,
                                    CollectiveKind::broadcast,      CollectiveKind::shift};
    const CollectiveKind kind = kinds[random.below(std::size(kinds))];
    ranks.task = {kind, Bytes{static_cast<std::int64_t>(random.below(100))}};
    const Problem problem{ranks.graph(), cluster};
    Schedule schedule{.placement = ranks.placement()};
    if (random.below(4) == 0)
      for (std::size_t i = 0; i < ranks.count; ++i) {
        const DeviceId other{random.below(devices)};
        schedule.placement[OpId{i}] = schedule.placement[OpId{ranks.count + 1 + i}] = other;
      }
    REQUIRE(simulate(problem, schedule) == naive_simulate(problem, schedule));
    schedule.policy = Policy::priority;
    for (std::size_t i = 0; i < problem.op_count(); ++i)
      schedule.priority.push_back(static_cast<double>(random.below(3)));
    REQUIRE(simulate(problem, schedule) == naive_simulate(problem, schedule));
    several +=
        collective_rings(cluster, collective_devices(problem.graph(), OpId{ranks.count}, schedule.placement)).size() >
        1;
  }
  CHECK(several > test::rounds(500U));
}

TEST_CASE("it waits for the last array, and no device: an op runs beside it") {
  // Arrays are ready at 0, 5, 10 and 15. The all-reduce then takes 2 x 3 x (1 + 2) = 18 ns.
  const Timeline timeline = Ranks{.apart = 5}.run(mesh(4));
  CHECK(timeline.makespan == Nanoseconds{15 + 18});
  REQUIRE(timeline.transfers.size() == 4);
  for (const Transfer& part : timeline.transfers) {
    CHECK(part.ready == Nanoseconds{15});
    CHECK(part.start == Nanoseconds{15});
    CHECK(part.end == Nanoseconds{33});
    CHECK(part.bytes == Bytes{12});  // 2 x 3/4 x 8
    CHECK(part.from.index() == (part.to.index() + 3) % 4);
  }
  CHECK(timeline.devices[DeviceId{3}].busy == Nanoseconds{15});
  CHECK(timeline.devices[DeviceId{3}].exposed_communication == Nanoseconds{18});
}

TEST_CASE("memory: the array and the result are both held while it runs") {
  for (const DeviceUse& use : Ranks{}.run(mesh(4)).devices) CHECK(use.peak == Bytes{8 + 8});
  // An all-gather of 8 bytes from parts of 2.
  const Ranks gather{.task = {CollectiveKind::all_gather, Bytes{2}}};
  for (const DeviceUse& use : gather.run(mesh(4)).devices) CHECK(use.peak == Bytes{2 + 8});
}

TEST_CASE("a transfer that is ready at the same time goes first, one that is ready later waits") {
  GraphBuilder builder{"both"};
  const auto times = [](std::int64_t time) { return std::vector<GivenTime>{{"gpu", Nanoseconds{time}}}; };
  builder.add({.name = "a", .times = times(0), .outputs = {{"x", Bytes{8}}}});
  builder.add({.name = "b", .times = times(0), .outputs = {{"y", Bytes{8}}}});
  builder.add({.name = "c", .times = times(3), .outputs = {{"early", Bytes{7}}}, .after = {"a"}});
  builder.add({.name = "d", .times = times(1), .outputs = {{"late", Bytes{5}}}, .after = {"c"}});
  builder.add({.name = "sum", .after = {"b", "c"}, .collective = CollectiveTask{CollectiveKind::all_reduce, Bytes{8}}});
  builder.add({.name = "have", .times = times(0), .inputs = {"y"}, .outputs = {{"z", Bytes{8}}}, .after = {"sum"}});
  builder.add({.name = "end", .times = times(0), .inputs = {"early", "late"}});
  const Problem problem{std::move(builder).build(), make_cluster(mesh(2))};
  const DeviceId d0{0}, d1{1};
  const Timeline timeline = simulate(problem, {.placement = Placement{{d0, d1, d0, d0, d0, d1, d1}}});
  // c ends at 3. Its 7 bytes hold d0 -> d1 until 3 + 1 + 7 = 11. Then the collective holds both directions until
  // 11 + 2 x (1 + 4) = 21, and d's bytes, ready at 4, wait for it.
  REQUIRE(timeline.transfers.size() == 3);
  CHECK(timeline.transfers[0].end == Nanoseconds{11});
  CHECK(timeline.transfers[1].ready == Nanoseconds{4});
  CHECK(timeline.transfers[1].start == Nanoseconds{21});
  CHECK(timeline.transfers[2].start == Nanoseconds{11});
  CHECK(timeline.transfers[2].end == Nanoseconds{21});
}

TEST_CASE("strict devices may have links by priority: a late transfer passes those that wait") {
  GraphBuilder builder{"late"};
  const auto times = [](std::int64_t time) { return std::vector<GivenTime>{{"gpu", Nanoseconds{time}}}; };
  builder.add({.name = "a", .times = times(1), .outputs = {{"x", Bytes{9}}, {"y", Bytes{9}}}});
  builder.add({.name = "b", .times = times(2), .outputs = {{"z", Bytes{9}}}});
  builder.add({.name = "use_x", .times = times(0), .inputs = {"x"}});
  builder.add({.name = "use_y", .times = times(0), .inputs = {"y"}});
  builder.add({.name = "use_z", .times = times(0), .inputs = {"z"}});
  const Problem problem{std::move(builder).build(), make_cluster(mesh(2))};
  const DeviceId d0{0}, d1{1};
  Schedule schedule{.placement = Placement{{d0, d0, d1, d1, d1}}, .policy = Policy::strict};
  schedule.order.assign(2, {});
  schedule.order[d0] = {OpId{0}, OpId{1}};
  schedule.order[d1] = {OpId{2}, OpId{3}, OpId{4}};
  const auto start = [&](std::size_t transfer) { return simulate(problem, schedule).transfers[transfer].start.count; };
  // x crosses from 1 to 11 and y until 21. Then z crosses, which is ready at 3.
  CHECK(start(1) == 11);
  CHECK(start(2) == 21);
  schedule.priority = IdMap<OpId, double>(std::vector<double>{0, 0, 0, 0, 1});
  CHECK(start(2) == 21);
  schedule.urgent_links = true;
  CHECK(start(2) == 11);
  CHECK(start(1) == 21);
  schedule.priority = {};
  CHECK_THROWS_AS(check_schedule(problem, schedule), InputError);
}

TEST_CASE("costs may say how long a collective takes") {
  struct WithCollectives {
    std::optional<OpCost> op_cost(const Graph&, OpId, const Device&) const { return Nanoseconds{1}; }
    std::optional<Nanoseconds> collective_time(CollectiveKind, Bytes bytes, std::size_t ranks, std::size_t) const {
      return Nanoseconds{bytes.count * static_cast<std::int64_t>(ranks)};
    }
  };
  const Ranks ranks;
  const auto time = [&](const Costs& costs) {
    return simulate(Problem{ranks.graph(), make_cluster(mesh(4)), costs}, {.placement = ranks.placement()}).makespan;
  };
  CHECK(time(Costs{WithCollectives{}}) == Nanoseconds{8 * 4});
  CHECK(time(Costs{WithCollectives{}}.at(Speeds{.link = 2})) == Nanoseconds{8 * 4 / 2});
}

TEST_CASE("the most urgent of those that become ready at once goes first, an earlier one is not overtaken") {
  // Three all-reduces of 4 bytes on two devices take 2 x (1 + 2) = 6 ns each. `first` is ready at 1 and ends at 7. The
  // others are ready at 3 and end, by priority, at 13 and 19.
  GraphBuilder builder{"three"};
  const auto times = [](std::int64_t time) { return std::vector<GivenTime>{{"gpu", Nanoseconds{time}}}; };
  const char* const names[] = {"first", "low", "high"};
  const std::int64_t made_in[] = {1, 2, 0};
  Schedule schedule{.policy = Policy::strict, .urgent_links = true};
  schedule.order.assign(2, {});
  const auto add = [&](OpSpec op, std::size_t device, double priority) {
    builder.add(std::move(op));
    schedule.order[DeviceId{device}].push_back(OpId{schedule.placement.size()});
    schedule.placement.push_back(DeviceId{device});
    schedule.priority.push_back(priority);
  };
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = names[i];
    OpSpec sum{.name = name, .collective = CollectiveTask{CollectiveKind::all_reduce, Bytes{4}}};
    for (std::size_t d = 0; d < 2; ++d) {
      sum.after.push_back("make_" + name + std::to_string(d));
      OpSpec make{
          .name = sum.after.back(), .times = times(made_in[i]), .outputs = {{"t" + sum.after.back(), Bytes{4}}}};
      if (i == 2) make.after = {"make_low" + std::to_string(d)};
      add(std::move(make), d, 0);
    }
    add(std::move(sum), 0, 0);
    for (std::size_t d = 0; d < 2; ++d)
      add({.name = "have_" + name + std::to_string(d),
           .times = times(0),
           .inputs = {"tmake_" + name + std::to_string(d)},
           .outputs = {{"r_" + name + std::to_string(d), Bytes{4}}},
           .after = {name}},
          d, i == 2 ? 1 : 0);
  }
  const Problem problem{std::move(builder).build(), make_cluster(mesh(2))};
  const auto end = [&](const char* name) {
    return simulate(problem, schedule).ops[*problem.graph().find_op(name)].end.count;
  };
  check_schedule(problem, schedule);
  CHECK(end("first") == 7);
  CHECK(end("high") == 13);
  CHECK(end("low") == 19);
  schedule.urgent_links = false;
  CHECK(end("low") == 13);
  CHECK(end("high") == 19);
}

TEST_CASE("a change of the schedule gives what a simulation of it gives") {
  for (std::uint64_t seed = 0; seed < test::rounds(300U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(9, seed);
    const Problem problem = random_problem(random, {.collectives = 3});
    Schedule schedule = random_schedule(random, problem);
    schedule.policy = Policy::fifo;
    DeltaSimulation run{problem, schedule};
    for (const GroupId group : problem.groups())
      for (const DeviceId to : problem.devices()) {
        if (!problem.can_run(group, to)) continue;
        const DeltaResult result = run.try_move(problem.group_ops(group), to);
        REQUIRE(result.complete());
        run.accept();
        REQUIRE(result.makespan == simulated_makespan(problem, run.schedule()));
        if (random.below(4) == 0) run = DeltaSimulation{run};  // a copy outlives the original
      }
  }
}

}  // namespace
}  // namespace trainyard::test
