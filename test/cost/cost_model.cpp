#include "trainyard/cost/cost_model.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "trainyard/cost/costs.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

/// A GPU of 1 TFLOP/s and 100 GB/s with a launch overhead of 4 us.
const Device kGpu{.name = "gpu0",
                  .kind = "V100",
                  .device_class = "gpu",
                  .peak = FlopsPerSecond{1e12},
                  .memory_bandwidth = BytesPerSecond{100e9},
                  .launch_overhead = Nanoseconds{4'000}};

Graph one_op(OpSpec op) {
  op.name = "op";
  GraphBuilder builder;
  builder.add(std::move(op));
  return std::move(builder).build();
}

CostModel at_full_efficiency() { return {.efficiencies = EfficiencyTable{}}; }

std::optional<OpCost> cost(const CostModel& model, OpSpec op, const Device& device = kGpu) {
  return Costs{model}.op_cost(one_op(std::move(op)), OpId{0}, device);
}

}  // namespace

TEST_CASE("the roofline is the longer of computing and moving bytes, and the launch is added to it") {
  // Compute: 2e9 FLOP / 1e12 = 2 ms. Memory: 1e8 B / 100e9 = 1 ms. Time: 2 ms + 4 us.
  CHECK(cost(at_full_efficiency(), {.flops = Flops{2e9}, .bytes_accessed = Bytes{100'000'000}}) ==
        OpCost{Nanoseconds{2'004'000}, CostSource::roofline});
  // Compute: 2e8 FLOP / 1e12 = 0.2 ms, less than the 1 ms of memory. Time: 1 ms + 4 us.
  CHECK(cost(at_full_efficiency(), {.flops = Flops{2e8}, .bytes_accessed = Bytes{100'000'000}}) ==
        OpCost{Nanoseconds{1'004'000}, CostSource::roofline});
}

TEST_CASE("efficiencies stretch both sides of the roofline") {
  CostModel model = at_full_efficiency();
  model.efficiencies.set("Conv", {0.5, 0.25});
  // Compute: 1e9 / (1e12 x 0.5) = 2 ms.
  CHECK(cost(model, {.type = "Conv", .flops = Flops{1e9}})->time == Nanoseconds{2'004'000});
  // Memory: 1e8 / (100e9 x 0.25) = 4 ms.
  CHECK(cost(model, {.type = "ConvGradX", .bytes_accessed = Bytes{100'000'000}})->time == Nanoseconds{4'004'000});
}

TEST_CASE("a time that the graph gives is the whole time, by device name before kind before class") {
  const std::vector<GivenTime> times{{"gpu", Nanoseconds{30}}, {"V100", Nanoseconds{20}}, {"gpu0", Nanoseconds{10}}};
  CostModel model = at_full_efficiency();
  model.table.add_op("V100", "op", Nanoseconds{99});
  const OpSpec op{.flops = Flops{1e9}, .times = times};
  Device device = kGpu;
  CHECK(cost(model, op, device) == OpCost{Nanoseconds{10}, CostSource::graph});
  device.name = "gpu1";
  CHECK(cost(model, op, device) == OpCost{Nanoseconds{20}, CostSource::graph});
  device.kind = "A100";
  CHECK(cost(model, op, device) == OpCost{Nanoseconds{30}, CostSource::graph});
}

TEST_CASE("measured times are asked by the op's name, then by its signature, and the launch is added") {
  CostModel model = at_full_efficiency();
  model.table.add_signature("V100", "Relu[8]", Nanoseconds{500});
  const OpSpec op{.signature = "Relu[8]", .flops = Flops{1e9}};
  CHECK(cost(model, op) == OpCost{Nanoseconds{4'500}, CostSource::calibrated_signature});
  model.table.add_op("V100", "op", Nanoseconds{700});
  CHECK(cost(model, op) == OpCost{Nanoseconds{4'700}, CostSource::calibrated_op});
  Device other = kGpu;
  other.kind = "A100";
  CHECK(cost(model, op, other) == OpCost{Nanoseconds{1'004'000}, CostSource::roofline});
}

TEST_CASE("an op runs only on the kinds, classes and devices that it names") {
  for (const std::string named : {"gpu0", "V100", "gpu"})
    CHECK(cost(at_full_efficiency(), {.flops = Flops{1}, .device_kinds = {"tpu", named}}));
  CHECK_FALSE(cost(at_full_efficiency(), {.flops = Flops{1}, .device_kinds = {"cpu", "A100"}}));
}

TEST_CASE("without anything to estimate from an op cannot run where no time is given") {
  CHECK_FALSE(cost(at_full_efficiency(), {.times = {{"cpu", Nanoseconds{5}}}}));
  CHECK(cost(at_full_efficiency(), {.flops = Flops{1e9}, .times = {{"cpu", Nanoseconds{5}}}})->source ==
        CostSource::roofline);
  Device no_peak = kGpu, no_bandwidth = kGpu;
  no_peak.peak = {};
  no_bandwidth.memory_bandwidth = {};
  CHECK_FALSE(cost(at_full_efficiency(), {.flops = Flops{1}}, no_peak));
  CHECK(cost(at_full_efficiency(), {.bytes_accessed = Bytes{1}}, no_peak));
  CHECK_FALSE(cost(at_full_efficiency(), {.bytes_accessed = Bytes{1}}, no_bandwidth));
}

TEST_CASE("an op with nothing to do takes its launch") {
  CHECK(cost(at_full_efficiency(), {}) == OpCost{Nanoseconds{4'000}, CostSource::roofline});
}

TEST_CASE("what-if speeds divide whole op times, launch included, and round halves up") {
  const Costs twice = Costs{at_full_efficiency()}.at({.compute = 2});
  const auto time = [&](OpSpec op) { return twice.op_cost(one_op(std::move(op)), OpId{0}, kGpu)->time; };
  CHECK(time({.times = {{"gpu", Nanoseconds{5}}}}) == Nanoseconds{3});  // 2.5 rounded up
  // Roofline and launch are both halved: (1 ms + 4 us) / 2.
  CHECK(time({.flops = Flops{1e9}}) == Nanoseconds{502'000});
}

TEST_CASE("a transfer takes its latency and its bytes, and link speed stretches both") {
  const RouteClass route{Nanoseconds{1'000}, BytesPerSecond{50e9}};
  Costs costs;
  const auto time = [&](std::int64_t bytes) { return costs.latency(route) + costs.byte_time(Bytes{bytes}, route); };
  CHECK(time(50'000) == Nanoseconds{2'000});  // 1 us + 50 kB / 50 GB/s
  CHECK(time(0) == Nanoseconds{1'000});
  CHECK(time(25) == Nanoseconds{1'001});  // 0.5 ns rounds up
  costs = costs.at({.link = 0.1});
  CHECK(time(50'000) == Nanoseconds{20'000});
}

TEST_CASE("times never pass the longest time") {
  CHECK(at_speed(Nanoseconds{kLongestTime.count - 1}, 0.5) == kLongestTime);
  CHECK(cost(at_full_efficiency(), {.flops = Flops{1e300}})->time == kLongestTime);
}
