#include "trainyard/cost/machine_change.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "support/refusal.hpp"
#include "trainyard/cluster/presets.hpp"

using namespace trainyard;

TEST_CASE("a change of a machine names parts that it has, and a factor above 0") {
  const Cluster cluster = make_cluster(preset_cluster("2xV100"));
  const auto refused = [&](const MachineChange& change) {
    return test::code_of([&] { changed_machine(cluster, Costs{}, std::array{change}); });
  };
  CHECK(refused({.factor = 0.5, .devices = {DeviceId{1}}, .links = {LinkId{0}}, .memories = {DeviceId{0}}}) == "");
  for (const double factor : {0.0, -2.0, std::nan("")}) CHECK(refused({.factor = factor}) == "range");
  CHECK(refused({.devices = {DeviceId{2}}}) == "unknown-device");
  CHECK(refused({.memories = {DeviceId::none()}}) == "unknown-device");
  CHECK(refused({.links = {LinkId{99}}}) == "unknown-link");
}
