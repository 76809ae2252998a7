#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

/// Checks that a device runs one op at a time, after all its inputs have arrived, and that transfers never wait.
void check_plan(const Problem& problem, const Schedule& schedule) {
  const Graph& graph = problem.graph();
  const auto start = [&](OpId op) { return schedule.plan->start[op]; };
  const auto end = [&](OpId op) { return start(op) + problem.duration(op, schedule.placement[op]); };
  Nanoseconds last{0};
  for (const OpId op : problem.ops()) {
    const DeviceId device = schedule.placement[op];
    last = std::max(last, end(op));
    CHECK(start(op) >= Nanoseconds{0});
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId from = graph.producer(tensor);
      const DeviceId there = schedule.placement[from];
      CHECK(start(op) >= end(from) + (there == device ? Nanoseconds{0} : problem.transfer_time(tensor, there, device)));
    }
    for (const OpId earlier : graph.after(op)) CHECK(start(op) >= end(earlier));
    for (const OpId other : problem.ops())
      if (other < op && schedule.placement[other] == device && end(op) > start(op) && end(other) > start(other)) {
        const Nanoseconds gap = problem.cluster().device(device).gap;
        CHECK((end(other) + gap <= start(op) || end(op) + gap <= start(other)));
      }
  }
  CHECK(schedule.plan->makespan == last);
}

TEST_CASE("list schedulers give valid plans that no bound forbids, and what the simulator says of them is confirmed") {
  Random random{42};
  for (int round = 0; round < test::rounds(300); ++round) {
    CAPTURE(round);
    const Problem problem = random_problem(random, {.most_ops = 25});
    const Nanoseconds bound = best_lower_bound(problem).value;
    for (const std::string name : {"heft", "cpop", "peft", "etf", "critical-path", "dsc", "lookahead-heft", "sdbats",
                                   "ippts", "getf", "celeritas"}) {
      CAPTURE(name);
      const Schedule schedule = find_placer(name).place(problem, {});
      REQUIRE_NOTHROW(check_schedule(problem, schedule));
      CHECK(schedule == find_placer(name).place(problem, {}));
      check_plan(problem, schedule);
      const Timeline timeline = simulate(problem, schedule);
      const Nanoseconds makespan = timeline.makespan;
      CHECK(makespan == naive_simulate(problem, schedule).makespan);
      if (timeline.fits()) CHECK(makespan >= bound);  // some bounds hold only for schedules that fit
    }
  }
}

TEST_CASE("every value of every parameter of the list schedulers gives a valid schedule") {
  Random random{43};
  const std::vector<std::pair<std::string, std::string>> values{
      {"insertion", "yes"}, {"insertion", "no"}, {"by", "start"},    {"by", "finish"},     {"level", "static"},
      {"level", "bottom"},  {"mapping", "load"}, {"mapping", "cut"}, {"mapping", "finish"}};
  for (int round = 0; round < test::rounds(60); ++round) {
    const Problem problem = random_problem(random, {.most_ops = 25});
    for (const Placer& placer : placers())
      for (const auto& entry : values) {
        const std::string &name = entry.first, &value = entry.second;
        if (std::ranges::find(placer.parameters, name, &PlacerParameter::name) == placer.parameters.end()) continue;
        CAPTURE(placer.name);
        CAPTURE(value);
        const Schedule schedule = placer.place(problem, {.parameters = {{name, value}}});
        REQUIRE_NOTHROW(check_schedule(problem, schedule));
        if (schedule.plan) check_plan(problem, schedule);
      }
  }
}

}  // namespace
}  // namespace trainyard::test
