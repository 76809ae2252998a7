#include "profiler/run/cuda/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/random_problem.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

bool overlap(const cuda::BufferPlace& a, const cuda::BufferPlace& b) {
  return a.device == b.device && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// The items that have ended before each begins, whatever they take: by their streams' order and their waits.
std::vector<std::vector<bool>> ended_before(const cuda::ExecutionPlan& plan) {
  const std::size_t count = plan.items.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  std::vector<std::size_t> last(plan.stream_device.size(), count);
  for (std::size_t at = 0; at < count; ++at) {
    const auto after = [&](std::size_t other) {
      before[at][other] = true;
      for (std::size_t i = 0; i < other; ++i) before[at][i] = before[at][i] || before[other][i];
    };
    for (const std::uint32_t other : plan.items[at].waits) after(other);
    std::size_t& previous = last[plan.items[at].stream];
    if (previous != count) after(previous);
    previous = at;
  }
  return before;
}

/// Pairs of items that touch the same bytes, one of them writing, in no order; and reads of what another has written
/// over.
std::size_t hazards(const cuda::ExecutionPlan& plan) {
  const auto before = ended_before(plan);
  std::size_t found = 0;
  for (std::size_t at = 0; at < plan.items.size(); ++at) {
    const cuda::PlanItem& item = plan.items[at];
    for (const cuda::BufferPlace& read : item.reads) {
      if (read.bytes == Bytes{0}) continue;
      std::size_t writer = at;  // the last that wrote there must have written just that
      for (std::size_t other = 0; other <= at; ++other)
        for (const cuda::BufferPlace& write : plan.items[other].writes)
          if (overlap(read, write) && (other < at || !(write == read))) writer = other;
      const auto& written = plan.items[writer].writes;
      found += std::ranges::find(written, read) == written.end();
    }
    for (std::size_t other = 0; other < at; ++other) {
      if (before[at][other]) continue;
      const auto touches = [](const std::vector<cuda::BufferPlace>& a, const std::vector<cuda::BufferPlace>& b) {
        return std::ranges::any_of(a, [&](const auto& one) {
          return std::ranges::any_of(b, [&](const auto& two) { return overlap(one, two); });
        });
      };
      found += touches(item.writes, plan.items[other].writes) || touches(item.writes, plan.items[other].reads) ||
               touches(item.reads, plan.items[other].writes);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("an operand stays in its place until a reader of no duration has read it") {
  // a -> t -> b (0 ns) at 1000 ns; c, after a and at 1000 ns too, writes u, which would fit into t's place.
  GraphBuilder builder{"labels"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{1'000}}}, .outputs = {{"t", Bytes{4'096}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{0}}}, .inputs = {"t"}, .outputs = {{"v", Bytes{4'096}}}});
  builder.add(
      {.name = "c", .times = {{"gpu", Nanoseconds{0}}}, .inputs = {"t", "v"}, .outputs = {{"u", Bytes{4'096}}}});
  builder.add({.name = "d", .times = {{"gpu", Nanoseconds{500}}}, .inputs = {"u"}});
  const Problem problem{std::move(builder).build(),
                        make_cluster({.name = "one", .devices = {{.name = "gpu0", .device_class = "gpu"}}})};
  const Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0})};
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  CHECK(hazards(plan) == 0);
  CHECK(plan.arena[DeviceId{0}] == Bytes{3 * 4'096});  // t, v and u at once
}

TEST_CASE("random schedules never read what was written over, nor touch bytes in no order") {
  Random random{21};
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const Problem problem = random_problem(random);
    const Schedule schedule = random_schedule(random, problem);
    CHECK(hazards(cuda::make_plan(problem, schedule, simulate(problem, schedule))) == 0);
  }
}
