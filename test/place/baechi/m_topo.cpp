#include "trainyard/place/baechi/m_topo.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "place/baechi/m_answers.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

/// A chain of `count` ops, each with one output of `bytes`, on devices of the given capacities.
Problem chain(std::size_t count, std::int64_t bytes, const std::vector<std::int64_t>& capacities,
              std::int64_t parameters = 0, const std::vector<std::string>& groups = {}) {
  GraphBuilder builder;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "op" + std::to_string(i);
    OpSpec op{.name = name,
              .parameter_bytes = Bytes{parameters},
              .times = {{"cpu", Nanoseconds{1}}},
              .outputs = {{name + ".0", Bytes{bytes}}}};
    if (!groups.empty()) op.colocate = groups[i];
    if (i > 0) op.inputs.push_back("op" + std::to_string(i - 1) + ".0");
    builder.add(std::move(op));
  }
  ClusterSpec cluster = test::full_mesh(capacities.size());
  for (std::size_t d = 0; d < capacities.size(); ++d) cluster.devices[d].memory = Bytes{capacities[d]};
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

using Devices = std::vector<std::size_t>;

}  // namespace

TEST_CASE("m-TOPO deals out the memory: a share of the sum, and the largest op on top") {
  // 6 ops of 10: the share is 60 / 2 + 10 = 40, so four and two
  CHECK(test::devices_of(m_topo(chain(6, 10, {1000, 1000}))) == Devices{0, 0, 0, 0, 1, 1});
  // 60 / 3 + 10 = 30
  CHECK(test::devices_of(m_topo(chain(6, 10, {1000, 1000, 1000}))) == Devices{0, 0, 0, 1, 1, 1});
}

TEST_CASE("m-TOPO that fills takes the next device when the first is full, and never goes back") {
  CHECK(test::devices_of(m_topo(chain(6, 10, {1000, 1000}), {.uniform = false})) == Devices{0, 0, 0, 0, 0, 0});
  CHECK(test::devices_of(m_topo(chain(6, 10, {25, 1000}), {.uniform = false})) == Devices{0, 0, 1, 1, 1, 1});
}

TEST_CASE("m-TOPO walks first come, first served") {
  // 0 and 1 have no inputs, 2 reads 1, 3 reads 0. The walk is 0, 1, 3, 2; the share 40 / 2 + 10 = 30: three and one.
  GraphBuilder builder;
  const std::vector<std::vector<std::string>> inputs{{}, {}, {"b.0"}, {"a.0"}};
  const std::vector<std::string> names{"a", "b", "c", "d"};
  for (std::size_t i = 0; i < 4; ++i)
    builder.add({.name = names[i],
                 .times = {{"cpu", Nanoseconds{1}}},
                 .inputs = inputs[i],
                 .outputs = {{names[i] + ".0", Bytes{10}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  CHECK(test::devices_of(m_topo(problem)) == Devices{0, 0, 1, 0});
}

TEST_CASE("m-TOPO's share may be beyond a capacity: what the device has to hold must have room on it") {
  // 12 ops with 10 bytes of parameters: the share is 120 / 3 + 10 = 50, but a device holds 40
  const Problem problem = chain(12, 0, {40, 40, 40}, 10);
  CHECK(test::devices_of(m_topo(problem)) == Devices{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(simulate(problem, m_topo(problem)).fits());
  // The authors' program counts parameters as part of outputs, and there are none: all ops go to the first device.
  CHECK(test::devices_of(m_topo(problem, {.literal = true})) == Devices(12, 0));
}

TEST_CASE("m-TOPO puts a colocation group where its first op goes") {
  // Group g needs 30, the other ops 10 each: after two of these, g has no room on the first device, of 45
  const std::vector<std::string> groups{"", "", "g", "", "g", "g"};
  CHECK(test::devices_of(m_topo(chain(6, 10, {45, 1000}, 0, groups), {.uniform = false})) == Devices{0, 0, 1, 1, 1, 1});
}

TEST_CASE("m-TOPO leaves what fits nowhere with the least excess, and the simulator says that it does not fit") {
  const Problem problem = chain(4, 0, {25, 15}, 10);  // 20 on the first device, 10 on the second, and one op too many
  const Schedule schedule = m_topo(problem, {.uniform = false});
  REQUIRE_NOTHROW(check_schedule(problem, schedule));
  CHECK(test::devices_of(schedule) == Devices{0, 0, 1, 0});  // excess 5 on either device: the lower id
  CHECK_FALSE(simulate(problem, schedule).fits());
}

TEST_CASE("m-TOPO gives the placements of Baechi's program, uniform and filling, with and without groups") {
  test::for_baechi([](const Problem& problem, const nlohmann::json&, const nlohmann::json& answers) {
    CHECK(test::devices_of(m_topo(problem, {.uniform = true, .literal = true})) ==
          answers.at("m_topo_uniform").at("placement").get<Devices>());
    CHECK(test::devices_of(m_topo(problem, {.uniform = false, .literal = true})) ==
          answers.at("m_topo_fill").at("placement").get<Devices>());
  });
}
