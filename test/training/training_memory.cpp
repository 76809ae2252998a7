#include <doctest/doctest.h>

#include "support/model_sketch.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;
using trainyard::test::ModelSketch;

namespace {

Timeline run_on_one_device(const Graph& graph) {
  const Cluster cluster = make_cluster({.name = "one",
                                        .devices = {{.name = "gpu0",
                                                     .kind = "",
                                                     .device_class = "gpu",
                                                     .peak = FlopsPerSecond{1e12},
                                                     .memory_bandwidth = BytesPerSecond{1e9}}}});
  const Problem problem{graph, cluster};
  return simulate(problem, {.placement = Placement(graph.op_count(), DeviceId{0})});
}

}  // namespace

TEST_CASE("the memory of a perceptron's step on one device peaks in the backward pass of its last layer") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 3});
  const ValueId h = net.node("Gemm", {x, net.parameter("w1", {3, 4}), net.parameter("b1", {4})}, {2, 4});
  const ValueId r = net.node("Relu", {h}, {2, 4});
  const ValueId y = net.node("Gemm", {r, net.parameter("w2", {4, 5}), net.parameter("b2", {5})}, {2, 5});
  const Graph graph = training_graph(net.finish({y}));
  const Timeline timeline = run_on_one_device(graph);

  // Bytes held while each op runs, on top of 4 x 41 = 164 of parameters (x 24, labels 16):
  //   Gemm0       x 24, labels 16, out 32                                             72
  //   Relu1       x 24, labels 16, in 32, out 32                                     104
  //   Gemm2       x 24, labels 16, in 32, out 40                                     112
  //   loss        x 24, labels 16, relu 32, in 40, loss 4, log-probabilities 40      156
  //   loss/grad   x 24, labels 16, relu 32, log-probabilities 40, out 40             152
  //   Gemm2/grad  x 24, relu 32, in 40, dX 32, dW 80, db 20                          228
  //   Relu1/grad  x 24, relu 32, in 32, out 32, and dW 80, db 20 for their updates   220
  const DeviceUse& device = timeline.devices[DeviceId{0}];
  CHECK(device.peak == Bytes{164 + 228});
  CHECK(device.peak_at == timeline.ops[*graph.find_op("Gemm2/grad")].start);
}

TEST_CASE("optimizer state is held for the whole step") {
  ModelSketch net;
  const ValueId x = net.input("x", {1, 1});
  const Model model = net.finish({net.node("Gemm", {x, net.parameter("w", {1, 100})}, {1, 100})});
  const auto peak = [&](Optimizer optimizer) {
    return run_on_one_device(training_graph(model, {.optimizer = optimizer})).devices[DeviceId{0}].peak;
  };
  const Bytes sgd = peak(Optimizer::sgd);
  CHECK(peak(Optimizer::momentum) == sgd + Bytes{400});
  CHECK(peak(Optimizer::adam) == sgd + Bytes{800});
}
