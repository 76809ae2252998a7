#include "trainyard/cost/calibration.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"

using namespace trainyard;

namespace {

ClusterSpec pair_spec() {
  const Device gpu{.name = "gpu0",
                   .kind = "K",
                   .device_class = "gpu",
                   .peak = FlopsPerSecond{1e12},
                   .memory_bandwidth = BytesPerSecond{100e9},
                   .launch_overhead = Nanoseconds{4'000}};
  ClusterSpec spec{.name = "pair", .devices = {gpu, gpu}};
  spec.devices[1].name = "gpu1";
  spec.links = {
      {.name = "l", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{10e9}, .latency = Nanoseconds{1'000}}};
  return spec;
}

/// A link of two segments: 2 us + 0.1 ns/B up to 1000 B, 2.05 us + 0.05 ns/B above.
CalibratedLink two_segments(std::string from, std::string to) {
  return {.from = std::move(from),
          .to = std::move(to),
          .from_kind = "K",
          .to_kind = "K",
          .path = "nvlink",
          .segments = {{Bytes{100}, Bytes{1'000}, 2'000, 0.1}, {Bytes{1'001}, Bytes{1'000'000}, 2'050, 0.05}}};
}

/// Ops a -> b with a tensor of `bytes` between them.
Graph chain(Bytes bytes, OpSpec a = {}) {
  GraphBuilder builder;
  a.name = "a";
  a.outputs = {{"t", bytes}};
  builder.add(std::move(a));
  builder.add({.name = "b", .inputs = {"t"}});
  return std::move(builder).build();
}

Nanoseconds transfer_time(const Calibration& calibration, Bytes bytes, std::size_t from, std::size_t to,
                          Evidence* evidence = nullptr, ClusterSpec spec = pair_spec()) {
  const Problem problem{chain(bytes), make_cluster(calibrated(std::move(spec), calibration).spec),
                        cost_model(calibration)};
  if (evidence) *evidence = problem.transfer_evidence(TensorId{0}, DeviceId{from}, DeviceId{to});
  return problem.transfer_time(TensorId{0}, DeviceId{from}, DeviceId{to});
}

OpCost cost(const Calibration& calibration, OpSpec op) {
  const ClusterSpec spec = calibrated(pair_spec(), calibration).spec;
  return *cost_model(calibration).op_cost(chain(Bytes{1}, std::move(op)), OpId{0}, spec.devices[0]);
}

}  // namespace

TEST_CASE("a measured route takes the time of the segment that its bytes fall into") {
  const Calibration calibration{.links = {two_segments("gpu0", "gpu1")}};
  Evidence evidence{};
  CHECK(transfer_time(calibration, Bytes{500}, 0, 1, &evidence) == Nanoseconds{2'050});  // 2000 + 500 x 0.1
  CHECK(evidence == Evidence::interpolated);
  CHECK(transfer_time(calibration, Bytes{10'000}, 0, 1, &evidence) == Nanoseconds{2'550});  // 2050 + 10'000 x 0.05
  CHECK(evidence == Evidence::interpolated);
  CHECK(transfer_time(calibration, Bytes{10}, 0, 1, &evidence) == Nanoseconds{2'001});  // 2000 + 10 x 0.1
  CHECK(evidence == Evidence::transferred);
  CHECK(transfer_time(calibration, Bytes{2'000'000}, 0, 1, &evidence) == Nanoseconds{102'050});
  CHECK(evidence == Evidence::transferred);
}

TEST_CASE("a route that was not measured takes the times of the same kinds, or else its own") {
  Calibration calibration{.links = {two_segments("gpu0", "gpu1")}};
  Evidence evidence{};
  CHECK(transfer_time(calibration, Bytes{500}, 1, 0, &evidence) == Nanoseconds{2'050});
  CHECK(evidence == Evidence::transferred);
  // With two measured paths between the kinds, the other pair's path is unknown: the cluster's 1000 + 500 / 10 GB/s =
  // 50.
  calibration.links.push_back(two_segments("gpu2", "gpu3"));
  calibration.links.back().path = "pcie";
  CHECK(transfer_time(calibration, Bytes{500}, 1, 0, &evidence) == Nanoseconds{1'050});
  CHECK(evidence == Evidence::estimated);
}

TEST_CASE("routes of the cluster that differ are not given one measurement by their kinds") {
  ClusterSpec spec = pair_spec();
  spec.devices.push_back(spec.devices[0]);
  spec.devices[2].name = "gpu2";
  spec.links.push_back({.name = "slow", .from = "gpu1", .to = "gpu2", .bandwidth = BytesPerSecond{1e9}});
  const Calibration calibration{.links = {two_segments("gpu0", "gpu1")}};
  const CalibrationMatch match = calibrated(spec, calibration).match;
  CHECK(match.routes == 1);
  CHECK(match.routes_by_kind == 0);
}

TEST_CASE("a calibration gives a fabric its devices' facts and the times of its ports") {
  Calibration calibration{.links = {two_segments("gpu0", "gpu1")}};
  ClusterSpec spec{.name = "pod", .devices = numbered_devices(pair_spec().devices[0], 4)};
  spec.fabric = FabricSpec{.hosts = 2,
                           .devices_per_host = 2,
                           .port_bandwidth = BytesPerSecond{1e9},
                           .nics_per_host = 2,
                           .nic_bandwidth = BytesPerSecond{1e9},
                           .nic_latency = Nanoseconds{7'000},
                           .hosts_per_leaf = 2};
  calibration.links[0].from_kind = calibration.links[0].to_kind = cost_kind(spec.devices[0]);
  const CalibratedCluster pod = calibrated(spec, calibration);
  const Cluster cluster = make_cluster(pod.spec);
  CHECK(pod.match.routes_by_kind == 4);  // two ordered pairs in each of two hosts
  const MeasuredRoute measured = calibrated(pair_spec(), calibration).spec.measured.front();
  const Route within = cluster.route(DeviceId{0}, DeviceId{1});
  CHECK((within.latency - measured.latency).count * (within.latency - measured.latency).count <= 1);
  CHECK(within.bandwidth == measured.bandwidth);
  CHECK(cluster.route(DeviceId{0}, DeviceId{2}).latency == Nanoseconds{14'000});  // the fabric's own 7 + 7 us
}

TEST_CASE(
    "links that were measured beside others or through pageable memory predict only where nothing better is there") {
  CalibratedLink loaded = two_segments("gpu0", "gpu1"), pageable = loaded, pinned = loaded;
  loaded.beside = {"gpu1->gpu0"};
  loaded.segments = {{Bytes{1}, Bytes{1'000'000}, 9'000, 1}};
  pageable.pinned = false;
  pageable.segments = {{Bytes{1}, Bytes{1'000'000}, 5'000, 1}};
  CHECK(transfer_time({.links = {loaded, pageable, pinned}}, Bytes{500}, 0, 1) == Nanoseconds{2'050});
  CHECK(transfer_time({.links = {loaded, pageable}}, Bytes{500}, 0, 1) == Nanoseconds{5'500});
  CHECK(transfer_time({.links = {loaded}}, Bytes{500}, 0, 1) == Nanoseconds{1'050});  // the cluster's own link
}

TEST_CASE("what a device's calibration says takes the place of what the cluster says") {
  Calibration calibration{.devices = {{.kind = "K",
                                       .peak = FlopsPerSecond{2e12},
                                       .memory_bandwidth = BytesPerSecond{50e9},
                                       .gap = Nanoseconds{300}}}};
  const auto [spec, match] = calibrated(pair_spec(), calibration);
  CHECK(match.devices == 2);
  CHECK(match.unmatched.empty());
  CHECK(spec.devices[0].peak == FlopsPerSecond{2e12});
  CHECK(spec.devices[0].memory_bandwidth == BytesPerSecond{50e9});
  CHECK(spec.devices[0].launch_overhead == Nanoseconds{0});  // op times were measured with their launches
  CHECK(spec.devices[0].gap == Nanoseconds{300});
  calibration.devices[0].kind = "other";
  const CalibratedCluster unknown = calibrated(pair_spec(), calibration);
  CHECK(unknown.spec.devices == pair_spec().devices);
  CHECK(unknown.match.unmatched == std::vector<std::string>{"K"});
}

TEST_CASE("sources are asked in order: name, signature, fit, fitted roofline, roofline") {
  Calibration calibration{.devices = {{.kind = "K"}}};
  calibration.ops = {{.device_kind = "K", .op = "a", .signature = "Conv[1]", .mean = Nanoseconds{111}},
                     {.device_kind = "K", .signature = "Conv[1]", .mean = Nanoseconds{222}},
                     {.device_kind = "K", .signature = "Conv[2]", .mean = Nanoseconds{333}}};
  calibration.fits = {
      {"K", "Conv", {.fixed_ns = 1'000, .ns_per_flop = 1e-3, .most_flops = 1e9, .most_bytes = 1e9}, {}}};
  calibration.efficiencies = {{"K", "Gemm", {0.5, 0.5}, 1, 0}};
  const auto is = [](const OpCost& cost, std::int64_t ns, CostSource source) {
    return cost == OpCost{Nanoseconds{ns}, source};
  };
  CHECK(is(cost(calibration, {.type = "Conv", .signature = "Conv[1]"}), 111, CostSource::calibrated_op));
  // An op with this name was measured, but with another signature: the signature's time is used.
  CHECK(is(cost(calibration, {.type = "Conv", .signature = "Conv[2]"}), 333, CostSource::calibrated_signature));
  // Fit: 1000 + 1e6 x 1e-3.
  CHECK(is(cost(calibration, {.type = "Conv", .signature = "Conv[3]", .flops = Flops{1e6}}), 2'000, CostSource::fit));
  // Fit beyond the measured range: 1000 + 2e9 x 1e-3.
  CHECK(is(cost(calibration, {.type = "Conv", .signature = "Conv[3]", .flops = Flops{2e9}}), 2'001'000,
           CostSource::fit_outside));
  // Roofline with a calibrated efficiency: 1e9 / (1e12 x 0.5).
  CHECK(is(cost(calibration, {.type = "Gemm", .signature = "g", .flops = Flops{1e9}}), 2'000'000,
           CostSource::calibrated_roofline));
  CHECK(cost(calibration, {.type = "Add", .signature = "g", .flops = Flops{1e9}}).source == CostSource::roofline);
  CHECK(CostSource::calibrated_op.evidence == Evidence::measured);
  CHECK(CostSource::fit_outside.evidence == Evidence::transferred);
}

TEST_CASE("a time in the step wins over one of the same op alone") {
  Calibration calibration;
  for (const auto& [mode, time] :
       {std::pair{MeasureMode::step, 300}, {MeasureMode::cold, 500}, {MeasureMode::hot, 200}})
    calibration.ops.push_back({.device_kind = "K", .signature = "s", .mode = mode, .mean = Nanoseconds{time}});
  CHECK(cost_model(calibration).table.find_signature("K", "s") == Nanoseconds{300});
}

TEST_CASE("ops that run beside others on one memory take as much longer as was measured") {
  Calibration calibration{.devices = {{.kind = "K"}}};
  calibration.ops = {{.device_kind = "K", .signature = "s", .mean = Nanoseconds{1'000}}};
  calibration.co_run = {{"K", "Add", 2, 1.5, 1}, {"K", "Add", 4, 2.5, 1}};
  CostModel costs = cost_model(calibration);
  const ClusterSpec spec = calibrated(pair_spec(), calibration).spec;
  const auto time = [&](std::int64_t devices) {
    costs.co_running = devices;
    return costs.op_cost(chain(Bytes{1}, {.type = "Add", .signature = "s"}), OpId{0}, spec.devices[0])->time;
  };
  CHECK(time(1) == Nanoseconds{1'000});
  CHECK(time(2) == Nanoseconds{1'500});
  CHECK(time(3) == Nanoseconds{2'000});  // midway between 1.5 and 2.5
  CHECK(time(8) == Nanoseconds{2'500});  // beyond the last point: constant
}
