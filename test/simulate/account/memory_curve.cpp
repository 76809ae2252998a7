#include "trainyard/simulate/account/memory_curve.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

using Curve = std::vector<MemoryPoint>;

MemoryPoint point(std::int64_t at, std::int64_t held) { return {Nanoseconds{at}, Bytes{held}}; }

/// Two devices and a link of 1 byte per ns.
Cluster two_devices() {
  ClusterSpec spec{.name = "two"};
  spec.devices = {{.name = "gpu0", .device_class = "gpu"}, {.name = "gpu1", .device_class = "gpu"}};
  spec.links = {{.name = "wire", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}}};
  return make_cluster(spec);
}

/// a runs from 0 to 2 with 3 bytes of workspace and makes t (5 bytes, `kept` or not). b has 7 bytes of parameters and
/// reads t.
Problem pair_problem(bool kept) {
  GraphBuilder builder{"pair"};
  builder.add({.name = "a",
               .workspace_bytes = Bytes{3},
               .times = {{"gpu", Nanoseconds{2}}},
               .outputs = {{"t", Bytes{5}, kept}}});
  builder.add({.name = "b", .parameter_bytes = Bytes{7}, .times = {{"gpu", Nanoseconds{4}}}, .inputs = {"t"}});
  return Problem{std::move(builder).build(), two_devices()};
}

IdMap<DeviceId, Curve> curves_of(const Problem& problem, std::size_t a, std::size_t b) {
  const Schedule schedule{.placement = Placement(std::vector{DeviceId{a}, DeviceId{b}})};
  return memory_curves(problem, schedule.placement, simulate(problem, schedule));
}

TEST_CASE("on one device a tensor is held from its op's start to its last reader's end") {
  const auto curves = curves_of(pair_problem(false), 0, 0);
  // 7 + 5 + 3 while a runs, 7 + 5 while b runs. b ends at 6, which is the makespan, so the curve does not drop.
  CHECK(curves[DeviceId{0}] == Curve{point(0, 15), point(2, 12)});
  CHECK(curves[DeviceId{1}] == Curve{point(0, 0)});
}

TEST_CASE("a tensor that crosses a link is held on both sides while it does") {
  const auto curves = curves_of(pair_problem(false), 0, 1);
  // a runs 0-2, t crosses 2-7, b runs 7-11
  CHECK(curves[DeviceId{0}] == Curve{point(0, 8), point(2, 5), point(7, 0)});
  CHECK(curves[DeviceId{1}] == Curve{point(0, 7), point(2, 12)});
}

TEST_CASE("a kept tensor stays where it was made until the end of the step") {
  const auto curves = curves_of(pair_problem(true), 0, 1);
  CHECK(curves[DeviceId{0}] == Curve{point(0, 8), point(2, 5)});
}

}  // namespace
}  // namespace trainyard
