#include "trainyard/place/list/relay.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/place/baechi/m_etf.hpp"
#include "trainyard/place/kit/piece.hpp"
#include "trainyard/place/list/heft.hpp"

using namespace trainyard;

namespace {

/// Links of 1 byte per ns join p0 to p2 and p1 to p3, and a slow one joins p0 to p1.
ClusterSpec two_hosts() {
  ClusterSpec spec{.name = "hosts", .devices = test::full_mesh(4).devices};
  const auto join = [&](const char* name, const char* from, const char* to, double bandwidth) {
    spec.links.push_back({.name = name, .from = from, .to = to, .bandwidth = BytesPerSecond{bandwidth}});
  };
  join("a", "p0", "p2", 1e9);
  join("b", "p1", "p3", 1e9);
  join("slow", "p0", "p1", 1e7);
  return spec;
}

/// A chain of ops of 10 ns with 10 bytes of parameters each, and tensors of 5 bytes.
Problem chain(std::size_t ops, ClusterSpec spec) {
  GraphBuilder builder{"chain"};
  for (std::size_t i = 0; i < ops; ++i) {
    OpSpec op{.name = "t" + std::to_string(i), .parameter_bytes = Bytes{10}, .times = {{"cpu", Nanoseconds{10}}}};
    if (i > 0) op.inputs = {"e" + std::to_string(i - 1)};
    op.outputs = {{"e" + std::to_string(i), Bytes{5}}};
    builder.add(op);
  }
  return Problem{std::move(builder).build(), make_cluster(std::move(spec))};
}

}  // namespace

TEST_CASE("blocks are of near devices, the fastest first") {
  const auto ids = [](const std::vector<std::vector<DeviceId>>& blocks) {
    std::vector<std::vector<std::size_t>> list;
    for (const auto& block : blocks) {
      list.emplace_back();
      for (const DeviceId device : block) list.back().push_back(device.index());
    }
    return list;
  };
  using Rows = std::vector<std::vector<std::size_t>>;
  const Problem problem = chain(2, two_hosts());
  CHECK(ids(device_blocks(problem, 2)) == Rows{{0, 2}, {1, 3}});
  CHECK(ids(device_blocks(problem, 3)) == Rows{{0, 2, 1}, {3}});
  const Problem unlike = test::make_problem({{{4, 3, 3, 9}}, {}});
  CHECK(ids(device_blocks(unlike, 1)) == Rows{{1}, {2}, {0}, {3}});
}

TEST_CASE("where one device has not the memory, the next goes on") {
  // 40 bytes of parameters on devices of 30: two devices have room with a tenth to spare, 54. Each takes two ops with
  // their inputs and outputs, 20 + 2 x 5. The chain takes 4 x 10, and 5 from one device to the other.
  ClusterSpec spec = two_hosts();
  for (Device& device : spec.devices) device.memory = Bytes{30};
  const Problem problem = chain(4, spec);
  const Schedule schedule = relay(problem, {.devices = 1});
  CHECK(schedule.placement.values() == std::vector{DeviceId{0}, DeviceId{0}, DeviceId{2}, DeviceId{2}});
  CHECK(test::outcome_of(problem, schedule) == Outcome{Bytes{0}, Nanoseconds{45}});
  // Without memory limits everything is on the first device.
  CHECK(test::outcome_of(chain(4, two_hosts()), relay(chain(4, two_hosts()), {.devices = 1})).makespan ==
        Nanoseconds{40});
}

TEST_CASE("the answer is never worse than that of its list schedulers on all devices, and often better") {
  Random random{2026};
  std::size_t better = 0;
  for (int round = 0; round < test::rounds(100); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 20});
    const Schedule schedule = relay(problem);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const Outcome outcome = test::outcome_of(problem, schedule);
    const Outcome other = std::min(test::outcome_of(problem, m_etf(problem)), test::outcome_of(problem, heft(problem)));
    CHECK(outcome <= other);
    if (outcome < other) ++better;
  }
  CHECK(better >= test::rounds(5U));
}

TEST_CASE("fewer devices are asked only where their share of the op time could be shorter") {
  const Problem problem = chain(4, two_hosts());
  // On three of the four devices, 40 of op time take at least 13 each. The chain itself takes 40.
  CHECK(!relay_on_fewer(problem, Nanoseconds{13}));
  const auto schedule = relay_on_fewer(problem, Nanoseconds{14});
  REQUIRE(schedule);
  CHECK(test::outcome_of(problem, *schedule).makespan == Nanoseconds{40});
  // With one device there are no fewer to ask.
  ClusterSpec alone{.name = "one", .devices = test::full_mesh(1).devices};
  CHECK(!relay_on_fewer(chain(4, alone), Nanoseconds{50}));
}

TEST_CASE("a piece of a graph is without what is outside it") {
  const Problem problem = chain(4, two_hosts());
  const Graph piece = piece_of(problem.graph(), std::vector{OpId{1}, OpId{2}});
  REQUIRE(piece.op_count() == 2);
  CHECK(piece.name(OpId{0}) == "t1");
  CHECK(piece.inputs(OpId{0}).empty());
  CHECK(piece.inputs(OpId{1}).size() == 1);
}
