#include "trainyard/training/training.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/model_sketch.hpp"
#include "training/op_text.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// x [2,3] -> Gemm0 [2,4] -> Relu1 -> Gemm2 [2,5], with biases: 12 + 4 + 20 + 5 = 41 parameters.
Model perceptron() {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 3});
  const ValueId h = net.node("Gemm", {x, net.parameter("w1", {3, 4}), net.parameter("b1", {4})}, {2, 4});
  const ValueId r = net.node("Relu", {h}, {2, 4});
  return net.finish({net.node("Gemm", {r, net.parameter("w2", {4, 5}), net.parameter("b2", {5})}, {2, 5})});
}

}  // namespace

TEST_CASE("a perceptron's training step adds up by hand") {
  const TrainingStep step = training_step(perceptron(), {.optimizer = Optimizer::adam});
  CHECK(step.summary ==
        TrainingSummary{
            .forward_flops = Flops{56 + 8 + 90 + 52},  // Gemm 48 + 8, Relu, Gemm 80 + 10, loss 5 x 10 + 2
            .backward_flops = Flops{50 + 170 + 8 + 56},
            .update_flops = Flops{12 * 41},
            .forward_matmul_flops = Flops{128},        // 2 x 8 x 3 + 2 x 10 x 4
            .backward_matmul_flops = Flops{160 + 48},  // no gradient of x: 2 x 128 - 48
            .saved_bytes = Bytes{32 + 40},             // Relu's output (once), log-probabilities
            .parameters = 41,
            .parameter_bytes = Bytes{164},
            .state_bytes = Bytes{328},
            .input_ops = 2,
            .forward_ops = 4,
            .backward_ops = 4,
            .update_ops = 4,
        });
  CHECK(op_names(step.graph, Phase::forward) == Names{"x", "labels", "Gemm0", "Relu1", "Gemm2", "loss"});
  CHECK(op_names(step.graph, Phase::backward) == Names{"loss/grad", "Gemm2/grad", "Relu1/grad", "Gemm0/grad"});
  CHECK(op_names(step.graph, Phase::update) == Names{"w1/update", "b1/update", "w2/update", "b2/update"});

  CHECK(input_names(step.graph, "Gemm0") == Names{"x"});  // parameters are not tensors
  CHECK(outputs(step.graph, "loss") == Names{"loss:4", "loss.logp:40"});
  CHECK(outputs(step.graph, "labels") == Names{"labels:16"});  // int64
  CHECK(input_names(step.graph, "loss/grad") == Names{"labels", "loss.logp"});
  CHECK(outputs(step.graph, "loss/grad") == Names{"Gemm2.out.grad:40"});
  CHECK(input_names(step.graph, "Gemm2/grad") == Names{"Gemm2.out.grad", "Relu1.out"});
  CHECK(outputs(step.graph, "Gemm2/grad") == Names{"Relu1.out.grad:32", "w2.grad:80", "b2.grad:20"});
  CHECK(input_names(step.graph, "Relu1/grad") == Names{"Relu1.out.grad", "Relu1.out"});
  CHECK(input_names(step.graph, "Gemm0/grad") == Names{"Gemm0.out.grad", "x"});
  CHECK(outputs(step.graph, "Gemm0/grad") == Names{"w1.grad:48", "b1.grad:16"});
  CHECK(input_names(step.graph, "w2/update") == Names{"w2.grad"});
  CHECK(outputs(step.graph, "w2/update").empty());

  const OpId gemm = find(step.graph, "Gemm0"), grad = find(step.graph, "Gemm2/grad"),
             update = find(step.graph, "w1/update");
  CHECK(step.graph.type(gemm) == "Gemm");
  CHECK(step.graph.parameter_bytes(gemm) == Bytes{64});
  CHECK(step.graph.state_bytes(gemm) == Bytes{128});
  CHECK(step.graph.bytes_accessed(gemm) == Bytes{4 * (6 + 12 + 4 + 8)});
  CHECK(step.graph.signature(gemm) == "Gemm(float32[2,3],float32[3,4],float32[4])->float32[2,4]");
  CHECK(step.graph.type(grad) == "GemmGrad");
  CHECK(step.graph.flops(grad) == Flops{80 + 80 + 10});
  CHECK(step.graph.bytes_accessed(grad) == Bytes{4 * (10 + 20 + 8 + 8 + 20 + 5)});  // dY, W, X; dX, dW, db
  CHECK(step.graph.type(update) == "AdamUpdate");
  CHECK(step.graph.flops(update) == Flops{144});
  CHECK(step.graph.bytes_accessed(update) == Bytes{7 * 4 * 12});
}

TEST_CASE("clipping sums the squares of each gradient, and its scale goes to every update") {
  const TrainingStep plain = training_step(perceptron(), {.optimizer = Optimizer::adam});
  const TrainingStep step = training_step(perceptron(), {.optimizer = Optimizer::adam, .clip_norm = 1});
  CHECK(op_names(step.graph, Phase::update) == Names{"w1/squares", "b1/squares", "w2/squares", "b2/squares",
                                                     "gradients/squares", "gradients/clip", "w1/update", "b1/update",
                                                     "w2/update", "b2/update"});
  CHECK(step.graph.flops(find(step.graph, "w2/squares")) == Flops{2 * 20});
  CHECK(step.graph.bytes_accessed(find(step.graph, "w2/squares")) == Bytes{4 * 20});
  CHECK(step.graph.colocation_group(find(step.graph, "w2/squares")) == "w2");
  CHECK(input_names(step.graph, "gradients/squares") == Names{"w1/squares", "b1/squares", "w2/squares", "b2/squares"});
  CHECK(outputs(step.graph, "gradients/clip") == Names{"gradients/clip:4"});
  CHECK(input_names(step.graph, "w2/update") == Names{"w2.grad", "gradients/clip"});
  CHECK(step.graph.bytes_accessed(find(step.graph, "w2/update")) == Bytes{(7 + 2) * 4 * 20});  // scaled in place
  // 41 parameters: 2 FLOPs for each square, 1 to scale; 4 to add up 4 sums, 3 for the scale.
  CHECK(step.summary.update_flops == plain.summary.update_flops + Flops{(2 + 1) * 41 + 4 + 3});
}

TEST_CASE("fine granularity sets the gradients of data, weights and bias apart") {
  TrainingStep fine = training_step(perceptron(), {.granularity = Granularity::fine});
  CHECK(op_names(fine.graph, Phase::backward) == Names{"loss/grad", "Gemm2/grad_a", "Gemm2/grad_b", "Gemm2/grad_c",
                                                       "Relu1/grad", "Gemm0/grad_b", "Gemm0/grad_c"});
  CHECK(fine.graph.flops(find(fine.graph, "Gemm2/grad_a")) == Flops{80});
  CHECK(fine.graph.flops(find(fine.graph, "Gemm2/grad_c")) == Flops{10});
  CHECK(input_names(fine.graph, "Gemm2/grad_a") == Names{"Gemm2.out.grad"});
  CHECK(input_names(fine.graph, "Gemm2/grad_b") == Names{"Gemm2.out.grad", "Relu1.out"});
  TrainingSummary whole = training_step(perceptron()).summary;
  fine.summary.backward_ops = whole.backward_ops = 0;
  CHECK(fine.summary == whole);
}

TEST_CASE("what touches a parameter is in its group, and groups are named after their first parameter") {
  const Graph graph = training_graph(perceptron());
  for (const char* op : {"Gemm0", "Gemm0/grad", "w1/update", "b1/update"}) CHECK(group(graph, op) == "w1");
  for (const char* op : {"Gemm2", "Gemm2/grad", "w2/update", "b2/update"}) CHECK(group(graph, op) == "w2");
  for (const char* op : {"x", "labels", "Relu1", "loss", "loss/grad", "Relu1/grad"}) CHECK(group(graph, op).empty());
}

TEST_CASE("gradients can be kept with their forward ops") {
  const Graph graph = training_graph(perceptron(), {.colocate_gradients = true});
  CHECK(group(graph, "Relu1") == "Relu1");
  CHECK(group(graph, "Relu1/grad") == "Relu1");
  CHECK(group(graph, "loss/grad") == "loss");
  CHECK(group(graph, "Gemm0/grad") == "w1");
  CHECK(group(graph, "x").empty());
}

TEST_CASE("inputs and labels take no time anywhere") {
  const Graph graph = training_graph(perceptron());
  for (const char* name : {"x", "labels"}) {
    const auto times = graph.given_times(find(graph, name));
    REQUIRE(times.size() == 2);
    CHECK(times[0] == GivenTime{"gpu", Nanoseconds{0}});
    CHECK(times[1] == GivenTime{"cpu", Nanoseconds{0}});
  }
}

TEST_CASE("without an optimizer there is the forward graph alone") {
  const TrainingStep step = training_step(perceptron(), {.optimizer = Optimizer::none});
  CHECK(op_names(step.graph, Phase::forward) == Names{"x", "Gemm0", "Relu1", "Gemm2"});
  CHECK(step.graph.op_count() == 4);
  CHECK(step.summary.parameter_bytes == Bytes{164});
  CHECK(step.summary.state_bytes == Bytes{0});
  CHECK(step.summary.backward_flops == Flops{0});
}

TEST_CASE("a small convolutional net saves what its backward pass reads, each storage once") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 3, 8, 8});
  const ValueId conv = net.node("Conv", {x, net.parameter("conv.w", {4, 3, 3, 3})}, {2, 4, 8, 8},
                                {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});  // 512 elements out
  const ValueId norm = net.nodes("BatchNormalization",
                                 {conv, net.parameter("bn.w", {4}), net.parameter("bn.b", {4}),
                                  net.buffer("bn.mean", {4}), net.buffer("bn.var", {4})},
                                 {{2, 4, 8, 8}, {4}, {4}}, {{"training_mode", std::int64_t{1}}})[0];
  const ValueId relu = net.node("Relu", {norm}, {2, 4, 8, 8});
  const ValueId pool =
      net.node("MaxPool", {relu}, {2, 4, 4, 4},
               {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"strides", std::vector<std::int64_t>{2, 2}}});
  const ValueId flat = net.node("Flatten", {pool}, {2, 64});
  const Model model =
      net.finish({net.node("Gemm", {flat, net.parameter("fc.w", {64, 5}), net.parameter("fc.b", {5})}, {2, 5})});

  const TrainingStep step = training_step(model, {.optimizer = Optimizer::momentum});
  CHECK(step.summary.forward_matmul_flops == Flops{27648 + 1280});       // 2 x 512 x 27 + 2 x 10 x 64
  CHECK(step.summary.backward_matmul_flops == Flops{27648 + 2 * 1280});  // no gradient of x for the convolution
  // Saved: input of the norm 2048, its statistics 8 x 4, Relu's output 2048 (also for the pool), indices 8 x 128, the
  // flattened output of the pool 512, log-probabilities 40.
  CHECK(step.summary.saved_bytes == Bytes{2048 + 32 + 2048 + 1024 + 512 + 40});
  CHECK(step.summary.parameters == 108 + 4 + 4 + 320 + 5);
  CHECK(step.summary.state_bytes == Bytes{4 * 441 + 4 * 8});  // momentum, and the norm's two buffers
  CHECK(outputs(step.graph, "BatchNormalization1") ==
        Names{"BatchNormalization1.out:2048", "BatchNormalization1.out.stats:32"});
  CHECK(outputs(step.graph, "MaxPool3") == Names{"MaxPool3.out:512", "MaxPool3.out.indices:1024"});
  CHECK(input_names(step.graph, "MaxPool3/grad") == Names{"Flatten4.out.grad", "Relu2.out", "MaxPool3.out.indices"});
  CHECK(input_names(step.graph, "Gemm5") == Names{"MaxPool3.out"});  // the Flatten is no op
  CHECK(group(step.graph, "BatchNormalization1") == "bn.w");
  CHECK(step.graph.type(find(step.graph, "BatchNormalization1/grad")) == "BatchNormGrad");
  // dY and X twice each, statistics, scale; dX, dscale, dbias.
  CHECK(step.graph.bytes_accessed(find(step.graph, "BatchNormalization1/grad")) ==
        Bytes{4 * 2048 + 32 + 16 + 2048 + 32});
  CHECK(op_names(step.graph, Phase::backward) ==
        Names{"loss/grad", "Gemm5/grad", "MaxPool3/grad", "Relu2/grad", "BatchNormalization1/grad", "Conv0/grad"});
}

TEST_CASE("where a residual branch meets its trunk one gradient addition is made, and none for the sum itself") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 4});
  const ValueId trunk = net.node("Gemm", {x, net.parameter("w1", {4, 4})}, {2, 4});
  const ValueId branch = net.node("Relu", {trunk}, {2, 4});
  const ValueId sum = net.node("Add", {branch, trunk}, {2, 4});
  const TrainingStep step = training_step(net.finish({sum}));
  CHECK(op_names(step.graph, Phase::backward) == Names{"loss/grad", "Relu1/grad", "Gemm0.out/add_grad", "Gemm0/grad"});
  CHECK(step.summary.gradient_adds == 1);
  CHECK(input_names(step.graph, "Gemm0.out/add_grad") == Names{"Add2.out.grad", "Gemm0.out.grad"});
  CHECK(step.graph.flops(find(step.graph, "Gemm0.out/add_grad")) == Flops{8});
  CHECK(step.graph.bytes_accessed(find(step.graph, "Gemm0.out/add_grad")) == Bytes{3 * 32});
  CHECK(step.summary.saved_bytes == Bytes{32 + 32});  // Relu's output, log-probabilities; Add saves nothing
}

TEST_CASE("a weight used three times is held once, and its gradients are added twice") {
  ModelSketch net;
  ValueId h = net.input("x", {2, 4});
  const ValueId w = net.parameter("w", {4, 4});
  for (int step = 0; step < 3; ++step) h = net.node("Tanh", {net.node("Gemm", {h, w}, {2, 4})}, {2, 4});
  const TrainingStep step = training_step(net.finish({h}));
  CHECK(step.summary.gradient_adds == 2);
  CHECK(step.summary.parameter_bytes == Bytes{64});
  CHECK(step.summary.update_ops == 1);
  CHECK(step.graph.parameter_bytes(find(step.graph, "Gemm0")) == Bytes{64});
  CHECK(step.graph.parameter_bytes(find(step.graph, "Gemm2")) == Bytes{0});
  for (const char* op :
       {"Gemm0", "Gemm2", "Gemm4", "Gemm0/grad", "Gemm2/grad", "Gemm4/grad", "w/add_grad", "w/add_grad#2", "w/update"})
    CHECK(group(step.graph, op) == "w");
  CHECK(step.summary.backward_matmul_flops == Flops{2 * 3 * 64 - 64});
}

TEST_CASE("a table tied to the output layer through a transpose is one parameter") {
  ModelSketch net;
  const ValueId table = net.parameter("table", {10, 4});
  const ValueId ids = net.input("ids", {2, 3}, DataType::int64);
  const ValueId words = net.node("Gather", {table, ids}, {2, 3, 4});
  const ValueId turned = net.node("Transpose", {table}, {4, 10});
  const Model model = net.finish({net.node("MatMul", {words, turned}, {2, 3, 10})});
  const TrainingStep step = training_step(model);
  CHECK(op_names(step.graph, Phase::backward) == Names{"loss/grad", "MatMul2/grad", "Gather0/grad", "table/add_grad"});
  for (const char* op : {"Gather0", "MatMul2", "MatMul2/grad", "Gather0/grad", "table/add_grad", "table/update"})
    CHECK(group(step.graph, op) == "table");
  CHECK(step.summary.saved_bytes ==
        Bytes{96 + 240});  // word vectors, log-probabilities; ids are an input, the table a parameter
  CHECK(step.graph.type(find(step.graph, "Gather0/grad")) == "EmbeddingGrad");
  CHECK(outputs(step.graph, "Gather0/grad") == Names{"table.grad:160"});  // dense
  CHECK(outputs(step.graph, "labels") == Names{"labels:48"});             // one a row: 2 x 3
}

TEST_CASE("what the loss does not depend on has no backward ops and no update") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 4});
  const ValueId y = net.node("Gemm", {x, net.parameter("w", {4, 4})}, {2, 4});
  const ValueId side = net.node("Gemm", {x, net.parameter("side", {4, 4})}, {2, 4});
  const TrainingStep step = training_step(net.finish({y, side}));
  CHECK(op_names(step.graph, Phase::backward) == Names{"loss/grad", "Gemm0/grad"});
  CHECK(op_names(step.graph, Phase::update) == Names{"w/update"});
  CHECK(step.summary.parameters == 32);
  CHECK(step.summary.parameter_bytes == Bytes{128});
}

TEST_CASE("half-precision parameters keep an fp32 copy in the optimizer's state") {
  // 16 bytes a parameter: weight 2, gradient 2, state 12. Traffic: gradient read 2, weight written 2, fp32 copy and
  // both moments read and written 24.
  CHECK(update_cost(Optimizer::adam, 10, 2) == UpdateCost{Flops{120}, Bytes{280}, Bytes{120}});
  CHECK(update_cost(Optimizer::adam, 10, 4) == UpdateCost{Flops{120}, Bytes{280}, Bytes{80}});
  CHECK(update_cost(Optimizer::momentum, 10, 4) == UpdateCost{Flops{40}, Bytes{200}, Bytes{40}});
  CHECK(update_cost(Optimizer::sgd, 10, 4) == UpdateCost{Flops{20}, Bytes{120}, Bytes{0}});
}

TEST_CASE("a first output of one element is the loss itself") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 4});
  const ValueId y = net.node("Gemm", {x, net.parameter("w", {4, 4})}, {2, 4});
  const Graph graph = training_graph(net.finish({net.node("ReduceMean", {y}, {}, {{"keepdims", std::int64_t{0}}})}));
  CHECK(op_names(graph, Phase::forward) == Names{"x", "Gemm0", "ReduceMean1"});
  CHECK(op_names(graph, Phase::backward) == Names{"ReduceMean1/grad", "Gemm0/grad"});
}

TEST_CASE("labels are one per row of classes, of images one per pixel") {
  const auto labels = [](Shape shape) {
    ModelSketch net;
    const ValueId x = net.input("x", shape);
    const Graph graph = training_graph(net.finish({net.node("Add", {x, net.parameter("p", shape)}, shape)}));
    return outputs(graph, "labels");
  };
  CHECK(labels({6, 10}) == Names{"labels:48"});
  CHECK(labels({2, 3, 10}) == Names{"labels:48"});
  CHECK(labels({2, 10, 3, 4}) == Names{"labels:192"});  // 2 x 3 x 4
  CHECK(labels({10}) == Names{"labels:8"});
}

TEST_CASE("a model that cannot be trained says why") {
  ModelSketch net;
  const ValueId y = net.node("Relu", {net.input("x", {2, 4})}, {2, 4});
  CHECK_THROWS_WITH_AS(training_graph(net.finish({y})), "no parameter of 'sketch' reaches its first output",
                       InputError);
  CHECK_THROWS_WITH_AS(training_graph(net.finish({})), "the model 'sketch' has no output", InputError);
  CHECK_NOTHROW(training_graph(net.finish({y}), {.optimizer = Optimizer::none}));
  Model unknown = perceptron();
  unknown.values[unknown.inputs[0]].shape_known = false;
  CHECK_THROWS_WITH_AS(training_graph(unknown), "the shape of 'x' is not known", InputError);
}

TEST_CASE("sizes beyond any machine are refused rather than overflow") {
  ModelSketch net;
  const Shape vast{std::int64_t{1} << 30, std::int64_t{1} << 26};
  const ValueId x = net.input("x", vast);
  const Model model = net.finish({net.node("Add", {x, net.parameter("p", vast)}, vast)});
  CHECK_THROWS_WITH_AS(training_graph(model), "the arrays of 'sketch' take more than 2^56 bytes", InputError);
}

TEST_CASE("optimizers are found by name") {
  for (const char* name : {"none", "sgd", "momentum", "adam"}) CHECK(name_of(find_optimizer(name)) == name);
  CHECK_THROWS_WITH_AS(find_optimizer("sdg"), "unknown optimizer 'sdg'", InputError);
}

TEST_CASE("names that repeat are told apart") {
  Model model = perceptron();
  for (Node& node : model.nodes) node.name = "same";
  const Graph graph = training_graph(model);
  CHECK(op_names(graph, Phase::forward) == Names{"x", "labels", "same", "same#2", "same#3", "loss"});
  for (Node& node : model.nodes) node.name = "";
  CHECK(op_names(training_graph(model), Phase::backward) ==
        Names{"loss/grad", "Gemm/grad", "Relu/grad", "Gemm/grad#2"});
}
