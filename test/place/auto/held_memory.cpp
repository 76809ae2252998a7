#include "trainyard/place/auto/held_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/account/holdings.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

TEST_CASE("what a move does to memory is told from the run: parameters, workspace, tensors made and tensors read") {
  // a [0, 10) makes 6 bytes for b [10, 20), which makes 3 for c [20, 30). All are on p0, with 20 bytes; p1 has 4.
  GraphBuilder builder{"chain"};
  builder.add(
      {.name = "a", .parameter_bytes = Bytes{10}, .times = {{"cpu", Nanoseconds{10}}}, .outputs = {{"s", Bytes{6}}}});
  builder.add({.name = "b",
               .parameter_bytes = Bytes{4},
               .workspace_bytes = Bytes{2},
               .times = {{"cpu", Nanoseconds{10}}},
               .inputs = {"s"},
               .outputs = {{"t", Bytes{3}}}});
  builder.add({.name = "c", .parameter_bytes = Bytes{5}, .times = {{"cpu", Nanoseconds{10}}}, .inputs = {"t"}});
  ClusterSpec spec = test::full_mesh(2);
  spec.devices[0].memory = Bytes{20};
  spec.devices[1].memory = Bytes{4};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(spec))};
  const Placement together(3, DeviceId{0});
  const Timeline timeline = simulate(problem, {.placement = together});
  HeldMemory memory{problem, together, timeline};
  const DeviceId p0{0}, p1{1};
  CHECK(memory.room(p0) == -10);  // parameters 19, and 6 + 2 + 3 while b runs: 30
  CHECK(memory.room(p1) == 4);
  const auto shift = [&](std::vector<OpId> ops) { return std::pair{memory.freed(ops, p0), memory.burden(ops, p1)}; };
  // Without a: 9 + 6 (read) + 2 + 3 = 20 fit on p0; p1 holds 10 and 6 while a runs, 12 too many.
  CHECK(shift({OpId{0}}) == std::pair<std::int64_t, std::int64_t>{10, 12});
  // Without b: 15 + 6 while a runs, 1 too many where 10 were; p1: 4 + 6 + 2 + 3, 11 too many.
  CHECK(shift({OpId{1}}) == std::pair<std::int64_t, std::int64_t>{9, 11});
  // Without c: 14 + 6 + 2 + 3 = 25, 5 too many; p1: 5 + 3, 4 too many.
  CHECK(shift({OpId{2}}) == std::pair<std::int64_t, std::int64_t>{5, 4});
  // Without b and c, t is not on p0: 10 + 6. p1: 9 + 6 + 2 + 3, 16 too many.
  CHECK(shift({OpId{1}, OpId{2}}) == std::pair<std::int64_t, std::int64_t>{10, 16});
}

/// Excess of a device if ops move from `before` to `after` at unchanged times, by a walk over all instants. HeldMemory
/// computes it by intervals.
std::int64_t excess_by_instants(const Problem& problem, const Timeline& timeline, const Placement& before,
                                const Placement& after, DeviceId device) {
  const auto& capacity = problem.cluster().device(device).memory;
  if (!capacity) return 0;
  const Graph& graph = problem.graph();
  const auto holdings = detail::find_holdings(problem, before, timeline);
  std::int64_t most = 0;
  for (Nanoseconds now{0}; now <= timeline.makespan; ++now.count) {
    std::int64_t held = 0;
    for (const detail::Held& each : holdings[device])
      if (each.from <= now && now < each.until) held += each.holding.bytes.count;
    for (const OpId op : problem.ops()) {
      if (after[op] == device) held += problem.resident_bytes(op).count;
      const bool runs = timeline.ops[op].start <= now && now < timeline.ops[op].end;
      if (runs) held += ((after[op] == device) - (before[op] == device)) * graph.workspace_bytes(op).count;
    }
    for (const TensorId tensor : graph.tensors()) {
      const auto touches = [&](OpId op) { return before[op] != after[op]; };
      const OpId producer = graph.producer(tensor);
      if (!touches(producer) && std::ranges::none_of(graph.consumers(tensor), touches)) continue;
      const auto is_held = [&](const Placement& placement) {
        const Span made = timeline.ops[producer];
        const bool home = placement[producer] == device;
        if (now < (home ? made.start : made.end)) return false;
        if (home && (now < made.end || (graph.kept(tensor) && now < timeline.makespan))) return true;
        return std::ranges::any_of(graph.consumers(tensor), [&](OpId reader) {
          return placement[reader] == device && now < timeline.ops[reader].end;
        });
      };
      held += (is_held(after) - is_held(before)) * graph.bytes(tensor).count;
    }
    most = std::max(most, held);
  }
  return std::max<std::int64_t>(0, most - capacity->count);
}

TEST_CASE("on random runs room is what the simulator leaves, and moves shift what a walk over all instants says") {
  Random random{41};
  int shifts = 0;
  for (int round = 0; round < test::rounds(150); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random);
    if (problem.device_count() < 2) continue;
    const Schedule schedule = test::random_schedule(random, problem);
    const Timeline timeline = simulate(problem, schedule);
    HeldMemory memory{problem, schedule.placement, timeline};
    for (const DeviceId device : problem.devices())
      if (const auto& capacity = problem.cluster().device(device).memory)
        CHECK(memory.room(device) == (*capacity - timeline.devices[device].peak).count);
    for (const DeviceId from : problem.devices())
      for (const DeviceId to : problem.devices()) {
        std::vector<OpId> ops;
        Placement after = schedule.placement;
        for (const OpId op : problem.ops())
          if (after[op] == from && random.chance(0.5)) {
            ops.push_back(op);
            after[op] = to;
          }
        if (from == to || ops.empty()) continue;
        const auto excess = [&](const Placement& placement, DeviceId device) {
          return excess_by_instants(problem, timeline, schedule.placement, placement, device);
        };
        const std::int64_t freed = memory.freed(ops, from), burden = memory.burden(ops, to);
        CHECK(freed == excess(schedule.placement, from) - excess(after, from));
        CHECK(burden == excess(after, to) - excess(schedule.placement, to));
        shifts += freed != 0 || burden != 0;
      }
  }
  CHECK((shifts > 250 || test::is_sanitized()));
}

}  // namespace
}  // namespace trainyard
