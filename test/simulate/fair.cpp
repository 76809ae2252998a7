#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simulate/small_instance.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/simulate/account/lanes.hpp"
#include "trainyard/simulate/critical_path.hpp"
#include "trainyard/simulate/model/fair_flows.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::test {
namespace {

/// Two devices, or three in a row (d0 - d1 - d2), with links of 1 byte per ns.
ClusterSpec chain(std::size_t devices, Sharing sharing = Sharing::fair) {
  ClusterSpec spec = linked(devices, Duplex::full, sharing);
  std::erase_if(spec.links, [](const Link& link) { return link.name == "l02"; });
  return spec;
}

std::vector<Span> transfers_of(const Timeline& timeline) {
  std::vector<Span> spans;
  for (const Transfer& transfer : timeline.transfers) spans.push_back({transfer.start, transfer.end});
  return spans;
}
std::vector<Span> transfers_of(const SmallInstance& instance, const ClusterSpec& spec) {
  return transfers_of(simulate(problem_of(instance, spec), schedule_of(instance)));
}
using Spans = std::vector<Span>;

// Ops of zero duration on d0 that send `bytes` at 0, and one op on d1 that receives.
SmallInstance senders(const std::vector<std::int64_t>& bytes) {
  SmallInstance instance;
  for (std::size_t i = 0; i < bytes.size(); ++i) instance.ops.push_back({0, 0});
  instance.ops.push_back({1, 10});
  for (std::size_t i = 0; i < bytes.size(); ++i) instance.tensors.push_back({i, {bytes.size()}, bytes[i]});
  return instance;
}

TEST_CASE("two transfers on one link have half of it each until the shorter one ends") {
  // 60 and 100 bytes, both at rate 1/2 until 120, when the first ends. The other has 40 left and is alone: 160.
  CHECK(transfers_of(senders({60, 100}), chain(2)) == Spans{span_of(0, 120), span_of(0, 160)});
  // Serial links finish the first at 60; the last byte arrives at 160 either way.
  CHECK(transfers_of(senders({60, 100}), chain(2, Sharing::serial)) == Spans{span_of(0, 60), span_of(60, 160)});
}

TEST_CASE("of three transfers over two links the long one has the least share and the others what is left") {
  // Bertsekas and Gallager's line: f0 crosses both links, f1 and f2 one each; l01 carries 1 byte per ns, l12 2.
  // l01: f0 = f1 = 1/2. l12: f2 has 2 - 1/2 = 3/2. So 60 bytes of f2 take 40 ns; f0 and f1 of 50 bytes take 100.
  SmallInstance instance;
  instance.ops = {{0, 0}, {0, 0}, {1, 0}, {2, 1}, {1, 1}, {2, 1}};
  instance.tensors = {{0, {3}, 50}, {1, {4}, 50}, {2, {5}, 60}};
  ClusterSpec spec = chain(3);
  spec.links[1].bandwidth = BytesPerSecond{2e9};
  CHECK(transfers_of(instance, spec) == Spans{span_of(0, 100), span_of(0, 100), span_of(0, 40)});
}

TEST_CASE("a transfer that starts midway halves the rate of the one that is there") {
  // d0 sends 100 bytes at 0 and, after an op of 40 ns, 50 at 40. Then 60 are left of the first, and both have rate 1/2.
  // The second ends at 40 + 100 = 140; 10 are left of the first: 150.
  SmallInstance instance;
  instance.ops = {{0, 0}, {0, 40}, {1, 1}, {1, 1}};
  instance.tensors = {{0, {2}, 100}, {1, {3}, 50}};
  CHECK(transfers_of(instance, chain(2)) == Spans{span_of(0, 150), span_of(40, 140)});
}

TEST_CASE("latency passes before bytes flow, and takes no share") {
  // Both have a latency of 10. The first flows from 10, the second, ready at 40, from 50, when 60 are left of the
  // first. Both have rate 1/2: the second's 20 take until 90, when 40 are left of the first: 130.
  SmallInstance instance;
  instance.ops = {{0, 0}, {0, 40}, {1, 1}, {1, 1}};
  instance.tensors = {{0, {2}, 100}, {1, {3}, 20}};
  ClusterSpec spec = chain(2);
  spec.links[0].latency = Nanoseconds{10};
  CHECK(transfers_of(instance, spec) == Spans{span_of(0, 130), span_of(40, 90)});
  // A tensor without bytes takes its latency and slows no other.
  instance.tensors[1].bytes = 0;
  CHECK(transfers_of(instance, spec) == Spans{span_of(0, 110), span_of(40, 50)});
}

TEST_CASE("equal transfers that start together take as much time each as all of them one after the other") {
  for (const std::int64_t count : {1, 2, 3, 7, 10, 49, 300})
    for (const std::int64_t bytes : {1, 3, 1'000'003, 1'000'000'000}) {
      CAPTURE(count);
      CAPTURE(bytes);
      ClusterSpec spec = chain(2);
      spec.links[0].latency = Nanoseconds{5};
      const SmallInstance instance = senders(std::vector<std::int64_t>(static_cast<std::size_t>(count), bytes));
      for (const Span& span : transfers_of(instance, spec)) REQUIRE(span == span_of(0, 5 + count * bytes));
    }
}

TEST_CASE("a transfer alone takes its time alone, whatever the bandwidth") {
  Random random{5};
  for (int i = 0; i < 2'000; ++i) {
    ClusterSpec spec = chain(3);
    for (Link& link : spec.links) {
      link.bandwidth = BytesPerSecond{static_cast<double>(random.between(1'000'000, 1'000'000'000'000)) / 7};
      link.latency = Nanoseconds{random.between(0, 20)};
    }
    if (random.chance(0.3)) spec.links[1].sharing = random.chance(0.5) ? Sharing::none : Sharing::serial;
    SmallInstance instance;
    instance.ops = {{0, 1}, {2, 1}};
    instance.tensors = {{0, {1}, random.between(0, 1'000'000'000)}};
    const Problem problem = problem_of(instance, spec);
    const Timeline timeline = simulate(problem, schedule_of(instance));
    const Transfer& transfer = timeline.transfers[0];
    REQUIRE(transfer.end - transfer.start == problem.transfer_time(TensorId{0}, DeviceId{0}, DeviceId{2}));
  }
}

TEST_CASE("both directions of a half-duplex link share it, those of a full-duplex one do not") {
  SmallInstance instance;
  instance.ops = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  instance.tensors = {{0, {3}, 50}, {1, {2}, 50}};
  CHECK(transfers_of(instance, chain(2)) == Spans{span_of(0, 50), span_of(0, 50)});
  CHECK(transfers_of(instance, linked(2, Duplex::half, Sharing::fair)) == Spans{span_of(0, 100), span_of(0, 100)});
}

TEST_CASE("a route with serial and fair links waits for the serial one and shares the fair one") {
  // d0 - d1 is fair, d1 - d2 serial. Two tensors of 50 from d0 to d2 take turns: 0 to 50 and 50 to 100 if alone. d0
  // also sends 60 to d1 at 0, over the fair link only. With rate 1/2 each, the first ends at 100. Then 10 are left of
  // the 60, for 20 ns at 1/2 beside the second, which has moved 10 by 120; its other 40 take until 160.
  SmallInstance instance;
  instance.ops = {{0, 0}, {0, 0}, {0, 0}, {2, 1}, {1, 1}};
  instance.tensors = {{0, {3}, 50}, {1, {3}, 50}, {2, {4}, 60}};
  ClusterSpec spec = chain(3);
  spec.links[1].sharing = Sharing::serial;
  CHECK(transfers_of(instance, spec) == Spans{span_of(0, 100), span_of(100, 160), span_of(0, 120)});
  // If d1 - d2 is unshared and narrower, it limits the transfer that crosses it to 1/4, and the other one gets 3/4.
  spec.links[1].sharing = Sharing::none;
  spec.links[1].bandwidth = BytesPerSecond{0.25e9};
  instance.tensors = {{0, {3}, 10}, {2, {4}, 30}};
  CHECK(transfers_of(instance, spec) == Spans{span_of(0, 40), span_of(0, 40)});
}

TEST_CASE("a bus of fair links is shared by all that cross them") {
  // d0 sends to d1 and d2 over two links of one bus: half of it each.
  ClusterSpec spec = linked(3, Duplex::full, Sharing::fair);
  for (Link& link : spec.links) link.bus = "pcie";
  SmallInstance instance;
  instance.ops = {{0, 0}, {1, 1}, {2, 1}};
  instance.tensors = {{0, {1, 2}, 50}};
  CHECK(transfers_of(instance, spec) == Spans{span_of(0, 100), span_of(0, 100)});
}

TEST_CASE("an end between two nanoseconds goes to the nearer one, halves up") {
  // Transfers of 1 and 2 bytes start at 0, one of 10 at 1. By 1, each has moved 1/2; then each has rate 1/3. The first
  // ends at 1 + 3/2 = 2.5, so 3. The second has 3/2 - 2/3 = 5/6 left, at 1/2 from 3 on: 3 + 5/3 = 4.67, so 5. The
  // third has 10 - 2/3 - 2/2 = 25/3 left, alone: 13.33, so 13.
  SmallInstance instance;
  instance.ops = {{0, 0}, {0, 0}, {0, 1}, {1, 1}};
  instance.tensors = {{0, {3}, 1}, {1, {3}, 2}, {2, {3}, 10}};
  CHECK(transfers_of(instance, chain(2)) == Spans{span_of(0, 3), span_of(0, 5), span_of(1, 13)});
}

TEST_CASE("a fair link is busy while one or more transfers are on it") {
  const SmallInstance instance = senders({60, 100});
  const Problem problem = problem_of(instance, chain(2));
  const Schedule schedule = schedule_of(instance);
  const Timeline timeline = simulate(problem, schedule);
  CHECK(timeline.channels[ChannelId{0}] == ChannelUse{Nanoseconds{160}, Bytes{160}});  // not 120 + 160
  CHECK(timeline.channels[ChannelId{1}] == ChannelUse{Nanoseconds{0}, Bytes{0}});
  CHECK(timeline.devices[DeviceId{0}].exposed_communication == Nanoseconds{160});

  const auto rows = lanes(problem, schedule.placement, timeline);
  REQUIRE(rows.size() == 5);  // two devices, two lanes for simultaneous transfers, and the other direction
  CHECK(rows[2].name == "d0 → d1  l01");
  CHECK(rows[2].spans == std::vector<std::size_t>{0});
  CHECK(rows[3].name == "d0 → d1  l01 2");
  CHECK(rows[3].spans == std::vector<std::size_t>{1});
  CHECK(rows[4].spans.empty());

  const auto path = critical_path(problem, schedule, timeline);
  REQUIRE(path.size() == 3);  // op 1, its transfer, op 2
  CHECK(path[0] == PathStep{OpId{1}, 0, PathStep::Cause::start});
  CHECK(path[1] == PathStep{OpId::none(), 1, PathStep::Cause::data});
}

TEST_CASE("every flow is as fast as any other on a full channel of its route, or as its route can be") {
  // The definition of max-min fairness: on each flow's route, some channel is full and carries no faster flow.
  for (std::uint64_t seed = 0; seed < test::rounds(2'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(77, seed);
    ClusterSpec spec = linked(2 + random.below(4), Duplex::full, Sharing::fair);
    for (Link& link : spec.links) link.bandwidth = BytesPerSecond{static_cast<double>(random.between(1, 100)) * 1e7};
    const Cluster cluster = make_cluster(spec);
    std::vector<ChannelId> all(cluster.channels().begin(), cluster.channels().end());
    constexpr std::size_t kFlows = 20;
    std::vector<std::vector<ChannelId>> routes(kFlows);
    std::vector<BytesPerSecond> slowest(kFlows, BytesPerSecond{1e12});
    detail::FairFlows flows{cluster, kFlows};
    std::vector<std::uint8_t> flowing(kFlows, 0);
    for (std::int64_t now = 0; now < 30; ++now) {
      const std::size_t f = random.below(kFlows);
      const detail::TransferId flow{f};
      if (flowing[f] != 0) {
        flows.end(flow);
      } else {
        random.shuffle(all);
        routes[f].assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(
                                                        1 + random.below(std::min<std::size_t>(all.size(), 4))));
        slowest[f] = BytesPerSecond{1e12};
        for (const ChannelId channel : routes[f]) slowest[f] = std::min(slowest[f], cluster.channel(channel).bandwidth);
        if (random.chance(0.2)) slowest[f] = BytesPerSecond{slowest[f].value / 8};
        flows.begin(flow, Nanoseconds{1'000'000'000}, slowest[f], routes[f], routes[f], now);
      }
      flowing[f] ^= 1;
      flows.update(now);

      IdMap<ChannelId, std::int64_t> used(cluster.channel_count(), 0), fastest(cluster.channel_count(), 0);
      IdMap<ChannelId, std::int64_t> count(cluster.channel_count(), 0);
      for (std::size_t i = 0; i < kFlows; ++i)
        if (flowing[i] != 0)
          for (const ChannelId channel : routes[i]) {
            const std::int64_t rate = flows.rate(detail::TransferId{i});
            used[channel] += rate;
            ++count[channel];
            fastest[channel] = std::max(fastest[channel], rate);
          }
      for (const ChannelId channel : cluster.channels()) REQUIRE(used[channel] <= flows.bandwidth(channel));
      for (std::size_t i = 0; i < kFlows; ++i) {
        if (flowing[i] == 0) continue;
        const std::int64_t rate = flows.rate(detail::TransferId{i});
        const double limit = slowest[i].value / 1e9;
        bool bound = false;
        for (const ChannelId channel : routes[i]) {
          const double share = static_cast<double>(rate) / static_cast<double>(flows.bandwidth(channel));
          const double bandwidth = cluster.channel(channel).bandwidth.value / 1e9;
          bound = bound || share * bandwidth >= limit * (1 - 1e-12);
          // Shares are rounded down: up to a unit per flow is left over, and rates may differ by as much.
          bound = bound || (flows.bandwidth(channel) - used[channel] < count[channel] &&
                            fastest[channel] - rate <= count[channel]);
        }
        REQUIRE(bound);
      }
    }
  }
}

TEST_CASE("the engine and the plain rule of fair links agree on thousands of random problems") {
  std::size_t transfers = 0, slowed = 0, waited = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(6'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(31, seed);
    RandomProblemOptions options;
    options.fair_links = seed % 3 == 0 ? 0.5 : 1;
    options.unit_ns = seed % 4 == 0 ? 9 : 1;
    options.most_ops = seed % 5 == 0 ? 30 : 14;
    const Problem problem = random_problem(random, options);
    const Schedule schedule = random_schedule(random, problem);
    Timeline timeline = simulate(problem, schedule);
    const Timeline expected = naive_simulate(problem, schedule);
    for (DeviceUse& use : timeline.devices) use.out_of_memory.reset();  // naive_simulate() does not set it
    REQUIRE(timeline.transfers == expected.transfers);
    REQUIRE(timeline == expected);
    REQUIRE(simulated_makespan(problem, schedule) == expected.makespan);
    REQUIRE(timeline.makespan <= problem.horizon());
    Simulation simulation{problem};
    IdMap<OpId, Nanoseconds> durations;
    for (const OpId op : problem.ops()) durations.push_back(problem.duration(op, schedule.placement[op]));
    REQUIRE(simulation.makespan(schedule, durations) == expected.makespan);
    const auto path = critical_path(problem, schedule, timeline);
    REQUIRE(path.front().cause == PathStep::Cause::start);
    for (const Lane& lane : lanes(problem, schedule.placement, timeline)) {
      if (lane.kind == Lane::Kind::device) continue;
      for (std::size_t i = 1; i < lane.spans.size(); ++i)
        REQUIRE(timeline.transfers[lane.spans[i - 1]].end <= timeline.transfers[lane.spans[i]].start);
    }
    transfers += timeline.transfers.size();
    for (const Transfer& transfer : timeline.transfers) {
      slowed += transfer.end - transfer.start > problem.transfer_time(transfer.tensor, transfer.from, transfer.to);
      waited += transfer.start > transfer.ready;
    }
  }
  CHECK(transfers > test::rounds(20'000U));
  CHECK(slowed > test::rounds(5'000U));
  CHECK(waited > test::rounds(500U));
}

}  // namespace
}  // namespace trainyard::test
