#include "trainyard/report/difference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

/// Chain a -> b -> c of 10 ms each. Outputs: 4 MB of a, 1 MB of b. b has 100 MB of parameters.
Graph three_ops() {
  GraphBuilder builder{"three"};
  const auto times = std::vector<GivenTime>{{"gpu", Nanoseconds{10'000'000}}};
  builder.add({.name = "a", .layer = "first", .times = times, .outputs = {{"x", Bytes{4'000'000}}}});
  builder.add({.name = "b",
               .layer = "second",
               .parameter_bytes = Bytes{100'000'000},
               .times = times,
               .inputs = {"x"},
               .outputs = {{"y", Bytes{1'000'000}}}});
  builder.add({.name = "c", .layer = "third", .times = times, .inputs = {"y"}});
  return std::move(builder).build();
}

Schedule on_devices(std::vector<std::size_t> devices) {
  Schedule schedule{.placement = Placement(devices.size())};
  for (std::size_t i = 0; i < devices.size(); ++i) schedule.placement[OpId{i}] = DeviceId{devices[i]};
  return schedule;
}

const Difference& found(const std::vector<Difference>& rows, const std::string& what, const std::string& name = "") {
  const auto row =
      std::ranges::find_if(rows, [&](const Difference& each) { return each.what == what && each.name == name; });
  REQUIRE(row != rows.end());
  return *row;
}

}  // namespace

TEST_CASE("two schedules differ by the layers that moved, their bytes, and the transfers that appear") {
  const Problem problem{three_ops(), make_cluster(preset_cluster("2xV100"))};
  const auto rows = differences(problem, on_devices({0, 0, 0}), on_devices({0, 1, 1}));
  CHECK(found(rows, "layer", "second").before == "gpu0");
  CHECK(found(rows, "layer", "second").after == "gpu1");
  CHECK(found(rows, "layer", "second").bytes == Bytes{101'000'000});  // b's parameters and y
  CHECK(found(rows, "layer", "third").bytes == Bytes{0});
  CHECK(found(rows, "transfer", "x").after == "gpu0 -> gpu1");
  CHECK(found(rows, "transfer", "x").before.empty());
  CHECK(found(rows, "transfer", "x").bytes == Bytes{4'000'000});
  CHECK(found(rows, "step time").before == "30.0 ms");
  CHECK(found(rows, "peak memory", "gpu0").before == "105.0 MB");  // parameters 100, x 4, y 1
  CHECK(found(rows, "peak memory", "gpu0").after == "4.00 MB");
  CHECK(std::ranges::count(rows, "layer", &Difference::what) == 2);
  CHECK(rows[3].what == "layer");
  CHECK(differences(problem, on_devices({0, 1, 1}), on_devices({0, 1, 1})).empty());
  // In the opposite direction, the transfer disappears.
  CHECK(found(differences(problem, on_devices({0, 1, 1}), on_devices({0, 0, 0})), "transfer", "x").before ==
        "gpu0 -> gpu1");
}

TEST_CASE("schedules of one placement differ by the first ops that change places") {
  GraphBuilder builder{"two"};
  for (const char* name : {"a", "b"})
    builder.add(
        {.name = name, .times = {{"gpu", Nanoseconds{1'000}}}, .outputs = {{std::string{name} + ".out", Bytes{8}}}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("1xV100"))};
  Schedule later = on_devices({0, 0});
  later.policy = Policy::priority;
  later.priority = IdMap<OpId, double>(std::vector<double>{0, 1});
  const auto rows = differences(problem, on_devices({0, 0}), later);
  CHECK(found(rows, "policy").after == "priority");
  CHECK(found(rows, "order", "gpu0").before == "a");
  CHECK(found(rows, "order", "gpu0").after == "b");
  CHECK(rows.size() == 2);
}

TEST_CASE("two graphs differ by ops and what is said of them") {
  const Graph before = three_ops();
  GraphBuilder builder{"three"};
  builder.add({.name = "a", .layer = "first", .flops = Flops{5}, .outputs = {{"x", Bytes{8'000'000}}}});
  builder.add({.name = "d", .type = "Relu", .inputs = {"x"}});
  const Graph after = std::move(builder).build();
  const auto rows = differences(before, after);
  CHECK(found(rows, "FLOPs of op", "a").after == "5");
  CHECK(found(rows, "outputs of op", "a").before == "x (4.00 MB)");
  CHECK(found(rows, "outputs of op", "a").after == "x (8.00 MB)");
  CHECK(found(rows, "op", "d").after == "Relu");
  CHECK(std::ranges::count(rows, "op", &Difference::what) == 3);  // b and c gone, d new
  CHECK(differences(before, three_ops()).empty());
}

TEST_CASE("nothing that a graph says of an op is passed over, and sizes that are alike rounded are told exactly") {
  const auto graph = [](const OpSpec& op) {
    GraphBuilder builder{"one"};
    builder.add({.name = "first"});
    builder.add(op);
    return std::move(builder).build();
  };
  const OpSpec plain{.name = "op", .outputs = {{"x", Bytes{1'000'000'001}}}};
  const auto changed = [&](const auto& change) {
    OpSpec op = plain;
    change(op);
    const auto rows = differences(graph(plain), graph(op));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].name == "op");
    CHECK(rows[0].before != rows[0].after);
    return rows[0].what + ": " + rows[0].after;
  };
  CHECK(changed([](OpSpec& op) { op.outputs[0].bytes = Bytes{1'000'000'002}; }) == "outputs of op: x (1000000002 B)");
  CHECK(changed([](OpSpec& op) { op.outputs[0].kept = true; }) == "outputs of op: x (1.00 GB, kept)");
  CHECK(changed([](OpSpec& op) { op.outputs[0].statistics = true; }) == "outputs of op: x (1.00 GB, statistics)");
  CHECK(changed([](OpSpec& op) { op.phase = Phase::update; }) == "phase of op: update");
  CHECK(changed([](OpSpec& op) { op.signature = "Add 2"; }) == "signature of op: Add 2");
  CHECK(changed([](OpSpec& op) { op.colocate = "group"; }) == "colocation group of op: group");
  CHECK(changed([](OpSpec& op) { op.device_kinds = {"cpu", "T4"}; }) == "device kinds of op: cpu, T4");
  CHECK(changed([](OpSpec& op) { op.times = {{"gpu", Nanoseconds{1500}}}; }) == "given times of op: gpu 1.50 us");
  CHECK(changed([](OpSpec& op) { op.state_bytes = Bytes{8}; }) == "state bytes of op: 8");
  CHECK(changed([](OpSpec& op) { op.workspace_bytes = Bytes{8}; }) == "workspace bytes of op: 8");
  CHECK(changed([](OpSpec& op) { op.after = {"first"}; }) == "ops before of op: first");
  const auto collective = [&](std::int64_t bytes) {
    return graph({.name = "op", .after = {"first"}, .collective = CollectiveTask{.bytes = Bytes{bytes}}});
  };
  const auto rows = differences(collective(4096), collective(4097));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].what == "collective of op");
  CHECK(rows[0].after == "all-reduce of 4097 B");
}

TEST_CASE("what a cluster says of a device, a link or its fabric differs in the two texts as well") {
  ClusterSpec before = preset_cluster("2xV100"), after = before;
  after.devices[0].gap = Nanoseconds{7};
  after.devices[1].memory = Bytes{before.devices[1].memory->count + 1};
  after.links[0].sharing = Sharing::fair;
  after.routes.push_back({.from = "gpu0", .to = "gpu1", .links = {after.links[0].name}});
  const auto rows = differences(before, after);
  REQUIRE(rows.size() == 4);
  for (const Difference& row : rows) CHECK(row.before != row.after);
  CHECK(rows[0].after.ends_with(", gap 7 ns"));
  CHECK(rows[2].after.ends_with(", fair"));
  CHECK(rows[3].name == "gpu0 -> gpu1");
  ClusterSpec fabric = preset_cluster("4x8xH100"), slower = fabric;
  slower.fabric->nic_bandwidth = BytesPerSecond{10e9};
  const auto of_fabric = differences(fabric, slower);
  REQUIRE(of_fabric.size() == 1);
  CHECK(of_fabric[0].after == "nic_bandwidth = \"10 GB/s\"");
}

TEST_CASE("two clusters differ by devices and links") {
  ClusterSpec before = preset_cluster("4xV100"), after = before;
  CHECK(differences(before, after).empty());
  after.devices[1].memory = Bytes{32'000'000'000};
  after.links[0].bandwidth = BytesPerSecond{20e9};
  const std::string gone = after.links.back().name;
  after.links.pop_back();
  const auto rows = differences(before, after);
  CHECK(rows.size() == 3);
  CHECK(found(rows, "device", "gpu1").after.find("32.0 GB") != std::string::npos);
  CHECK(found(rows, "link", before.links[0].name).after.find("20.0 GB/s") != std::string::npos);
  CHECK(found(rows, "link", gone).after.empty());
}
