#include "trainyard/throughput/latency.hpp"

#include <doctest/doctest.h>

#include "throughput/sketch.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;
using trainyard::test::ms;

namespace {

LatencyReport latency_on(const LoadSketch& sketch, std::vector<std::size_t> devices) {
  LoadPlacement placement;
  for (const std::size_t device : devices) placement.push_back(DeviceId{device});
  return evaluate_latency(sketch.problem(), placement);
}

const LoadSketch kChain{
    .nodes = {{.gpu = 3, .cost = .5, .cpu = 30}, {.gpu = 6, .cost = .25, .cpu = 60}, {.gpu = 3, .cpu = 30}},
    .edges = {{0, 1}, {1, 2}},
    .gpus = 2,
    .cpus = 1};

}  // namespace

TEST_CASE("a piece reads its inputs, computes and writes its outputs") {
  CHECK(latency_on(kChain, {0, 0, 0}).latency == ms(12));
  CHECK(latency_on(kChain, {0, 1, 1}).latency == ms(13));    // 3 + .5 out; .5 in + 9
  CHECK(latency_on(kChain, {0, 1, 0}).latency == ms(13.5));  // 3 + .5; .5 + 6 + .25; .25 + 3: two pieces on gpu0
  CHECK(latency_on(kChain, {0, 1, 0}).pieces == 3);
}

TEST_CASE("CPUs pay nothing and run as much at once as there is") {
  CHECK(latency_on(kChain, {2, 2, 2}).latency == ms(120));
  CHECK(latency_on(kChain, {2, 0, 2}).latency == ms(66.75));  // 30 on the CPU; .5 + 6 + .25 on gpu0; 30
  const LoadSketch wide{.nodes = {{.gpu = 1, .cpu = 5}, {.gpu = 1, .cpu = 7}}, .edges = {}, .gpus = 1, .cpus = 1};
  CHECK(latency_on(wide, {1, 1}).latency == ms(7));
}

TEST_CASE("a piece waits for all its inputs before any of its ops starts") {
  // 0 and 2 on gpu0 are one piece, since no path between them leaves gpu0: 0 waits for 1 too.
  const LoadSketch sketch{
      .nodes = {{.gpu = 4}, {.gpu = 5, .cost = 1}, {.gpu = 2}}, .edges = {{0, 2}, {1, 2}}, .gpus = 2};
  const LatencyReport report = latency_on(sketch, {0, 1, 0});
  CHECK(report.pieces == 2);
  CHECK(report.latency == ms(13));  // piece of 1: 5 + 1 out; piece of 0 and 2: 1 in + 4 + 2
}

TEST_CASE("pieces that wait for each other in a circle have no latency") {
  // 0 -> 1 and 2 -> 3, with 0 and 3 on gpu0, 1 and 2 on gpu1: each piece reads from the other.
  const LoadSketch sketch{
      .nodes = {{.gpu = 1}, {.gpu = 1}, {.gpu = 1}, {.gpu = 1}}, .edges = {{0, 1}, {2, 3}}, .gpus = 2};
  CHECK(latency_on(sketch, {0, 1, 1, 0}).cyclic);
  CHECK_FALSE(latency_on(sketch, {0, 1, 0, 1}).cyclic);
}
