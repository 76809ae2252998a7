#include "profiler/run/cpu/link_emulator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

/// The collective that a transfer belongs to, or none for a transfer of its producer.
OpId collective_of(const Graph& graph, const Transfer& transfer) {
  for (const OpId before : graph.after(graph.producer(transfer.tensor)))
    if (graph.collective(before)) return before;
  return OpId::none();
}

struct Carried {
  std::vector<Transfer> transfers;
  std::map<OpId, Span> collectives;
};

Carried carried(const Graph& graph, const Timeline& timeline, const Placement& placement) {
  Carried result;
  for (const Transfer& each : timeline.transfers) {
    const OpId collective = collective_of(graph, each);
    if (!collective.is_none() && each.to == placement[graph.producer(each.tensor)])
      result.collectives[collective] = {each.start, each.end};
    else
      result.transfers.push_back(each);
  }
  std::ranges::sort(result.transfers, {}, [](const Transfer& each) { return std::pair{each.tensor, each.to}; });
  return result;
}

/// Start and end of each transfer and collective on emulated links that are requested one after the other, at the ready
/// times of the timeline.
Carried emulated(const Problem& problem, const Schedule& schedule, const Timeline& timeline) {
  cpu::LinkEmulator links{problem, schedule};
  std::set<std::pair<Nanoseconds, cpu::TransferId>> asked;
  for (const Transfer& each : timeline.transfers) {
    const OpId collective = collective_of(problem.graph(), each);
    if (!collective.is_none() && each.to == schedule.placement[problem.graph().producer(each.tensor)])
      asked.emplace(each.ready, links.planned().of(collective));
    else
      for (const cpu::TransferId id : links.planned().of(each.tensor))
        if (links.planned().to[id] == each.to) asked.emplace(each.ready, id);
  }
  Carried result;
  const auto take = [&](cpu::TransferId id, Span span) {
    const OpId collective = links.planned().collective(id);
    if (!collective.is_none()) result.collectives[collective] = span;
  };
  for (const auto& [ready, id] : asked) {
    links.advance(ready.count - 1, take);
    links.submit(id, ready);
  }
  links.advance(timeline.makespan.count, take);
  result.transfers = links.transfers();
  return result;
}

}  // namespace

TEST_CASE("emulated links carry a schedule's transfers and collectives as the simulator does, under each policy") {
  std::size_t urgent = 0, broadcast = 0, collectives = 0;
  for (std::uint64_t seed = 1; seed <= test::rounds(6000U); ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const Problem problem = test::random_problem(random, {.collectives = seed % 3});
    if (problem.cluster().has_fair_channels()) continue;
    Schedule schedule = test::random_schedule(random, problem);
    if (schedule.policy == Policy::strict && seed % 2 == 0) {
      schedule.urgent_links = true;
      schedule.priority = IdMap<OpId, double>(problem.op_count(), 0);
      for (const OpId op : problem.ops()) schedule.priority[op] = static_cast<double>(random.below(5)) - 2;
      ++urgent;
    }
    const Timeline timeline = simulate(problem, schedule);
    const Carried expected = carried(problem.graph(), timeline, schedule.placement);
    const auto is_collective = [&](OpId op) { return problem.graph().collective(op) != nullptr; };
    if (std::ranges::count_if(problem.ops(), is_collective) != std::ssize(expected.collectives))
      continue;  // a collective with empty members holds links that the timeline does not show
    const Carried got = emulated(problem, schedule, timeline);
    CHECK(got.transfers == expected.transfers);
    CHECK(got.collectives == expected.collectives);
    for (const Transfer& each : got.transfers) broadcast += !each.also_to.empty();
    collectives += got.collectives.size();
  }
  CHECK(urgent > 0);
  CHECK(broadcast > 0);
  CHECK(collectives > 0);
}
