#include "trainyard/simulate/account/lanes.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

using Indices = std::vector<std::size_t>;

/// Lanes of a run in which a makes x, y and z of 10, 20 and 30 bytes, and b on the other device reads them over `link`,
/// at 1 byte per ns. Op c takes no time.
std::vector<Lane> fan_lanes(Link link) {
  GraphBuilder builder{"fan"};
  builder.add({.name = "a",
               .times = {{"gpu", Nanoseconds{1000}}},
               .outputs = {{"x", Bytes{10}}, {"y", Bytes{20}}, {"z", Bytes{30}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{1000}}}, .inputs = {"x", "y", "z"}});
  builder.add({.name = "c", .times = {{"gpu", Nanoseconds{0}}}, .after = {"a"}});
  ClusterSpec spec{.name = "two"};
  spec.devices = {{.name = "gpu0", .device_class = "gpu"}, {.name = "gpu1", .device_class = "gpu"}};
  link.name = "wire";
  link.from = "gpu0";
  link.to = "gpu1";
  link.bandwidth = BytesPerSecond{1e9};
  spec.links = {link};
  const Problem problem{std::move(builder).build(), make_cluster(spec)};
  const Schedule schedule{.placement = Placement(std::vector{DeviceId{0}, DeviceId{1}, DeviceId{1}})};
  return lanes(problem, schedule.placement, simulate(problem, schedule));
}

TEST_CASE("a full-duplex link has a lane for each direction") {
  const auto rows = fan_lanes({});
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].name == "gpu0");
  CHECK(rows[0].spans == Indices{0});
  CHECK(rows[1].spans == Indices{1});
  CHECK(rows[2].name == "gpu0 → gpu1  wire");
  CHECK(rows[2].spans == Indices{0, 1, 2});
  CHECK(rows[3].name == "gpu1 → gpu0  wire");
  CHECK(rows[3].spans.empty());
}

TEST_CASE("what takes no time is an instant beside the spans") { CHECK(fan_lanes({})[1].instants == Indices{2}); }

TEST_CASE("links of one bus put a transfer on two lanes") {
  const auto rows = fan_lanes({.duplex = Duplex::half, .bus = "pcie0"});
  REQUIRE(rows.size() == 4);
  CHECK(rows[2].spans == rows[3].spans);
  CHECK(rows[2].spans == Indices{0, 1, 2});
}

TEST_CASE("transfers that hold no channel get as many lanes as run at once") {
  const auto rows = fan_lanes({.sharing = Sharing::none});
  std::vector<std::string> names;
  for (const Lane& lane : rows)
    if (lane.kind == Lane::Kind::free) names.push_back(lane.name);
  CHECK(names == std::vector<std::string>{"from gpu0, unshared", "from gpu0, unshared 2", "from gpu0, unshared 3"});
}

}  // namespace
}  // namespace trainyard
