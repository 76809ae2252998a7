#include "trainyard/report/what_if.hpp"

#include <doctest/doctest.h>

#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

Nanoseconds nanos(std::int64_t count) { return Nanoseconds{count}; }

/// Op 0 (4 ns, output of 10 bytes) on d0 feeds op 1 (6 ns) on d1: 4 + 10 + 6 = 20 ns.
const SmallInstance kPair{{{0, 4}, {1, 6}}, {{0, {1}, 10}}};

TEST_CASE("what ifs of a chain over a link, the best first") {
  const Problem problem = problem_of(kPair, linked(2));
  const Schedule schedule = schedule_of(kPair);
  const Timeline timeline = simulate(problem, schedule);
  CHECK_THROWS_AS(usual_what_ifs(problem, Timeline{}, 2), InputError);
  const auto usual = usual_what_ifs(problem, timeline, 2);
  REQUIRE(usual.size() == 4);  // both devices together, each device, the link
  const auto results = simulate_what_ifs(problem, schedule, usual);
  CHECK(results[0].what_if.name == "all 2 gpu 2x as fast");
  CHECK(results[0].makespan == nanos(2 + 10 + 3));
  CHECK(results[1].what_if.name == "l01 2x as fast");
  CHECK(results[1].makespan == nanos(4 + 5 + 6));  // tied with the first: order of the list
  CHECK(results[2].what_if.name == "d1 2x as fast");
  CHECK(results[2].makespan == nanos(4 + 10 + 3));
  CHECK(results[3].what_if.name == "d0 2x as fast");
  CHECK(results[3].makespan == nanos(2 + 10 + 6));
  for (const WhatIfResult& each : results) CHECK(each.fits);
}

TEST_CASE("more memory is asked for where something does not fit, and fits from the size of the peak on") {
  ClusterSpec cluster = linked(2);
  cluster.devices[0].memory = cluster.devices[1].memory = Bytes{6};  // both devices hold the tensor of 10 bytes
  const Problem problem = problem_of(kPair, cluster);
  const Schedule schedule = schedule_of(kPair);
  const Timeline timeline = simulate(problem, schedule);
  REQUIRE_FALSE(timeline.fits());
  const auto results = simulate_what_ifs(problem, schedule, usual_what_ifs(problem, timeline, 2));
  CHECK(results.front().what_if.name == "all 2 gpu with 2x memory");  // 12 bytes
  CHECK(results.front().fits);
  CHECK(results.front().makespan == nanos(20));
  CHECK_FALSE(results.back().fits);
  const std::vector<WhatIf> little{{"a little", {{.factor = 1.5, .memories = {DeviceId{0}, DeviceId{1}}}}}};
  CHECK_FALSE(simulate_what_ifs(problem, schedule, little).front().fits);  // 9 bytes
}

TEST_CASE("a route stays what it is, though another one would be shorter by now") {
  // The direct route d0 - d1 has a latency of 4 ns, the one by d2 3 + 3, or 1 + 1 with d2's links 3 times as fast.
  ClusterSpec cluster = linked(3);
  cluster.links[0].latency = nanos(4);
  cluster.links[1].latency = cluster.links[2].latency = nanos(3);
  const Problem problem = problem_of(kPair, cluster);
  const Schedule schedule = schedule_of(kPair);
  CHECK(simulate(problem, schedule).makespan == nanos(4 + 14 + 6));
  const std::vector<WhatIf> both{{"by d2", {{.factor = 3, .links = {LinkId{1}, LinkId{2}}}}},
                                 {"direct", {{.factor = 2, .links = {LinkId{0}}}}}};
  const auto results = simulate_what_ifs(problem, schedule, both);
  CHECK(results[0].what_if.name == "direct");
  CHECK(results[0].makespan == nanos(4 + (2 + 5) + 6));
  CHECK(results[1].makespan == nanos(4 + 14 + 6));
}

TEST_CASE("a measured route follows its link") {
  ClusterSpec cluster = linked(2);
  cluster.links[0].latency = nanos(2);
  cluster.measured = {{.from = "d0", .to = "d1", .latency = nanos(6), .bandwidth = BytesPerSecond{.5e9}, .curve = 1}};
  CostModel costs;
  costs.curves = {{.segments = {{Bytes{1}, Bytes{100}, 6, 2}}}};
  const Problem problem{graph_of(kPair), make_cluster(cluster), costs};
  const Schedule schedule = schedule_of(kPair);
  CHECK(simulate(problem, schedule).makespan == nanos(4 + (6 + 20) + 6));
  const std::vector<WhatIf> faster{{"wire", {{.factor = 2, .links = {LinkId{0}}}}}};
  CHECK(simulate_what_ifs(problem, schedule, faster).front().makespan == nanos(4 + (3 + 10) + 6));
}

TEST_CASE("egresses, fabrics and several changes at once") {
  const Problem egress = problem_of(kPair, egresses(2));
  const std::vector<WhatIf> faster{
      {"egress", {{.factor = 2, .links = {LinkId{0}}}}},
      {"all", {{.factor = 2, .links = {LinkId{0}}}, {.factor = 2, .devices = {DeviceId{0}, DeviceId{1}}}}}};
  const auto results = simulate_what_ifs(egress, schedule_of(kPair), faster);
  CHECK(results[0].makespan == nanos(2 + 5 + 3));
  CHECK(results[1].makespan == nanos(4 + 5 + 6));

  ClusterSpec fabric = linked(2);
  fabric.links.clear();
  fabric.fabric = FabricSpec{.hosts = 1,
                             .devices_per_host = 2,
                             .port_bandwidth = kBytePerNanosecond,
                             .port_latency = nanos(1),
                             .nics_per_host = 1,
                             .nic_bandwidth = kBytePerNanosecond,
                             .hosts_per_leaf = 1};
  const Problem hosts = problem_of(kPair, fabric);
  const Timeline timeline = simulate(hosts, schedule_of(kPair));
  CHECK(timeline.makespan == nanos(4 + (2 + 10) + 6));  // the port's latency of 1 ns at each end
  const auto of_fabric =
      simulate_what_ifs(hosts, schedule_of(kPair), std::vector<WhatIf>{{"ports", {{.factor = 2, .ports = true}}}});
  CHECK(of_fabric.front().makespan == nanos(4 + (2 + 5) + 6));  // 0.5 ns at each end, rounded up to 1
}

TEST_CASE("a change by the factor 1 changes nothing") {
  for (std::uint64_t seed = 0; seed < test::rounds(300U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(37, seed);
    const Problem problem = random_problem(random, {});
    const Schedule schedule = random_schedule(random, problem);
    WhatIf same{"the same", {{.factor = 1}}};
    for (const DeviceId device : problem.devices()) {
      same.changes[0].devices.push_back(device);
      same.changes[0].memories.push_back(device);
    }
    const ClusterSpec& spec = problem.cluster().spec();
    if (!spec.fabric)
      for (std::size_t i = 0; i < spec.links.size() + spec.egresses.size(); ++i)
        same.changes[0].links.push_back(LinkId{i});
    const Timeline timeline = simulate(problem, schedule);
    const auto result = simulate_what_ifs(problem, schedule, std::vector{same}).front();
    REQUIRE(result.makespan == timeline.makespan);
    REQUIRE(result.fits == timeline.fits());
  }
}

}  // namespace
}  // namespace trainyard::test
