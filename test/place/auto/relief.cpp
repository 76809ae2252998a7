#include "trainyard/place/auto/relief.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/assignments.hpp"
#include "support/random_problem.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/auto/clusters.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// Calls `visit` with each placement that the problem allows.
template <class Visit>
void for_each_placement(const Problem& problem, const Visit& visit) {
  test::for_each_assignment(problem.op_count(), problem.device_count(), [&](const std::vector<DeviceId>& devices) {
    const Schedule schedule{.placement = Placement{devices}};
    // A device may be unable to run an op, or a group be apart.
    if (test::findings_of([&] { check_schedule(problem, schedule); }).empty()) visit(schedule.placement);
  });
}

/// Independent ops, each given by its parameter bytes and its times on p0, p1, ..., on devices of these capacities.
Problem loads(const std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>>& ops,
              const std::vector<std::int64_t>& capacities) {
  GraphBuilder builder{"loads"};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpSpec op{.name = "t" + std::to_string(i), .parameter_bytes = Bytes{ops[i].first}};
    for (std::size_t d = 0; d < capacities.size(); ++d)
      op.times.push_back({"p" + std::to_string(d), Nanoseconds{ops[i].second[d]}});
    builder.add(std::move(op));
  }
  ClusterSpec spec = test::full_mesh(capacities.size());
  for (std::size_t d = 0; d < capacities.size(); ++d) spec.devices[d].memory = Bytes{capacities[d]};
  return {std::move(builder).build(), make_cluster(std::move(spec))};
}

Ordered relieved_from(const Problem& problem, const std::vector<std::size_t>& devices, const Budget& budget = {}) {
  Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0})};
  for (std::size_t i = 0; i < devices.size(); ++i) schedule.placement[OpId{i}] = DeviceId{devices[i]};
  return relieved(problem, cluster_levels(problem), schedule, budget);
}

std::vector<std::size_t> devices_of(const Ordered& answer) {
  std::vector<std::size_t> devices;
  for (const DeviceId device : answer.schedule.placement) devices.push_back(device.index());
  return devices;
}

TEST_CASE("what frees the most bytes for the time lost moves first, and nothing once it fits") {
  // p0 has 10 bytes and holds 15. Moving an op to p1 frees 5, 5 or 4 of the excess, for 90, 1 or 0 ns more.
  const Problem problem = loads({{6, {10, 100}}, {5, {10, 11}}, {4, {10, 10}}}, {10, 10});
  const Ordered answer = relieved_from(problem, {0, 0, 0});
  CHECK(devices_of(answer) == std::vector<std::size_t>{0, 1, 0});
  CHECK(answer.outcome == Outcome{Bytes{0}, Nanoseconds{20}});
  CHECK(answer.evaluations == 2);  // the start, and the move
  // 6 and 4 on p0 and 5 on p1 fit as they are.
  CHECK(devices_of(relieved_from(problem, {0, 1, 0})) == std::vector<std::size_t>{0, 1, 0});
  CHECK(relieved_from(problem, {0, 1, 0}).evaluations == 1);
  // A budget of 0 evaluations leaves the start as it is.
  CHECK(devices_of(relieved_from(problem, {0, 0, 0}, {.evaluations = 0})) == std::vector<std::size_t>{0, 0, 0});
}

TEST_CASE("where no move alone helps, two ops change places") {
  // p0 (10 bytes) holds 6 + 5, p1 (9 bytes) 4 + 4. One op more on p1 makes 13 or 14 there. 6 + 4 and 5 + 4 fit.
  const Problem two = loads({{6, {9, 9}}, {5, {9, 9}}, {4, {9, 9}}, {4, {9, 9}}}, {10, 9});
  const Ordered swapped = relieved_from(two, {0, 0, 1, 1});
  CHECK(swapped.outcome.excess == Bytes{0});
  CHECK(swapped.schedule.placement[OpId{0}] == DeviceId{0});
  CHECK(swapped.schedule.placement[OpId{1}] == DeviceId{1});
  // If nothing fits, the answer has the least excess.
  const Problem full = loads({{6, {9, 9}}, {5, {9, 9}}, {4, {9, 9}}, {4, {9, 9}}}, {10, 8});
  CHECK(relieved_from(full, {0, 0, 1, 1}).outcome.excess == Bytes{1});  // 19 bytes, room for 18
}

TEST_CASE(
    "on random instances a schedule that fits is found nearly always where there is one, and none is made worse") {
  // Problems of up to 8 ops on 2 or 3 devices. All have the same capacity: `percent` of the least with which some
  // placement fits.
  struct Row {
    std::int64_t percent;
    int least_found, of;
  };
  for (const Row& row : {Row{100, 136, 145}, {110, 121, 124}, {130, 66, 66}}) {
    CAPTURE(row.percent);
    Random random{51};
    int found = 0, beyond = 0;
    for (int round = 0; round < test::rounds(400); ++round) {
      CAPTURE(round);
      const Problem roomy = test::random_problem(random, {.most_ops = 8, .most_devices = 3});
      if (roomy.device_count() < 2) continue;
      Schedule schedule{.placement = {}, .policy = Policy::priority};
      schedule.priority = rank_priorities(roomy);
      Bytes least{1'000'000};
      Placement start;
      for_each_placement(roomy, [&](const Placement& placement) {
        schedule.placement = placement;
        Bytes most{0};
        for (const DeviceUse& use : simulate(roomy, schedule).devices) most = std::max(most, use.peak);
        least = std::min(least, most);
        if (start.empty() || random.chance(0.1)) start = placement;
      });
      ClusterSpec spec = roomy.cluster().spec();
      for (Device& device : spec.devices) device.memory = Bytes{least.count * row.percent / 100};
      const Problem problem{roomy.graph(), make_cluster(std::move(spec))};
      schedule.placement = start;
      const Outcome before = test::outcome_of(problem, schedule);
      const Ordered answer = relieved(problem, cluster_levels(problem), schedule, {.evaluations = 100});
      REQUIRE_NOTHROW(check_schedule(problem, answer.schedule));
      CHECK(answer.outcome == test::outcome_of(problem, answer.schedule));
      CHECK(answer.outcome <= before);
      CHECK(answer.evaluations <= 100);
      const Ordered known = relieved(problem, cluster_levels(problem), schedule, {.evaluations = 100}, before.makespan);
      CHECK(known.outcome == before);  // no moves: the makespan is not below the known one
      if (before.excess == Bytes{0}) {
        CHECK(answer.schedule == schedule);
        continue;
      }
      ++beyond;
      found += answer.outcome.excess == Bytes{0};
    }
    if (test::is_sanitized()) continue;  // fewer rounds
    CHECK(beyond == row.of);
    CHECK(found >= row.least_found);
  }
}

}  // namespace
}  // namespace trainyard
