#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/model_sketch.hpp"
#include "training/op_text.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// The attributes of a Slice that takes the first `count` columns.
std::map<std::string, Attribute> columns(std::int64_t count) {
  using Integers = std::vector<std::int64_t>;
  return {{"starts", Integers{0}}, {"ends", Integers{count}}, {"axes", Integers{1}}};
}

}  // namespace

TEST_CASE("a tensor read through slices alone is declared as its slices") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 4});
  const ValueId gates = net.node("Gemm", {x, net.parameter("w", {4, 6})}, {2, 6});
  SUBCASE("and its gradient is one Concat") {
    const auto parts = net.nodes("Split", {gates}, {{2, 3}, {2, 3}}, {{"axis", std::int64_t{1}}});
    const ValueId a = net.node("Sigmoid", {parts[0]}, {2, 3}), b = net.node("Tanh", {parts[1]}, {2, 3});
    const Graph graph = training_graph(net.finish({net.node("Mul", {a, b}, {2, 3})}));
    CHECK(outputs(graph, "Gemm0") == Names{"Split1.out:24", "Split1.out1:24"});
    CHECK(input_names(graph, "Sigmoid2") == Names{"Split1.out"});
    CHECK(input_names(graph, "Split1/grad") == Names{"Split1.out.grad", "Split1.out1.grad"});
    CHECK(graph.type(find(graph, "Split1/grad")) == "Concat");
    CHECK(graph.bytes_accessed(find(graph, "Split1/grad")) == Bytes{2 * 48});
  }
  SUBCASE("unless an op reads all of it too") {
    const auto parts = net.nodes("Split", {gates}, {{2, 3}, {2, 3}}, {{"axis", std::int64_t{1}}});
    const ValueId all = net.node("Tanh", {gates}, {2, 6});
    const ValueId both = net.node("Concat", {parts[0], parts[1], all}, {2, 12});
    const Graph graph = training_graph(net.finish({both}));
    CHECK(outputs(graph, "Gemm0") == Names{"Gemm0.out:48"});
    CHECK(input_names(graph, "Concat3") == Names{"Gemm0.out", "Tanh2.out"});
  }
  SUBCASE("unless they are not all of it: the storage stays alive as a whole") {
    const ValueId a = net.node("Slice", {gates}, {2, 1}, columns(1));
    const Graph graph = training_graph(net.finish({net.node("Tanh", {a}, {2, 1})}));
    CHECK(outputs(graph, "Gemm0") == Names{"Gemm0.out:48"});
    CHECK(input_names(graph, "Tanh2") == Names{"Gemm0.out"});
  }
  SUBCASE("unless slices overlap") {
    const ValueId a = net.node("Slice", {gates}, {2, 4}, columns(4)),
                  b = net.node("Slice", {gates}, {2, 5}, columns(5));
    const ValueId both = net.node("Concat", {net.node("Tanh", {a}, {2, 4}), net.node("Tanh", {b}, {2, 5})}, {2, 9});
    const Graph graph = training_graph(net.finish({both}));
    CHECK(outputs(graph, "Gemm0") == Names{"Gemm0.out:48"});
  }
}

TEST_CASE("the gradient of a Concat is handed out in slices that no op makes") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 4});
  const ValueId a = net.node("Gemm", {x, net.parameter("wa", {4, 3})}, {2, 3});
  const ValueId b = net.node("Gemm", {x, net.parameter("wb", {4, 5})}, {2, 5});
  const Graph graph = training_graph(net.finish({net.node("Concat", {a, b}, {2, 8})}));
  CHECK(op_names(graph, Phase::backward) == Names{"loss/grad", "Gemm1/grad", "Gemm0/grad"});
  CHECK(outputs(graph, "loss/grad") == Names{"Gemm0.out.grad:24", "Gemm1.out.grad:40"});
  CHECK(input_names(graph, "Gemm1/grad") == Names{"Gemm1.out.grad", "x"});
}

TEST_CASE("the steps of a sequence are gathered into one gradient, or added up as eager PyTorch does") {
  ModelSketch net;
  const ValueId x = net.input("x", {3, 2, 4});
  const ValueId all = net.node("Linear", {x, net.parameter("w", {4, 4})}, {3, 2, 4});
  std::vector<ValueId> steps;
  for (std::int64_t step = 0; step < 3; ++step)
    steps.push_back(net.node("Tanh", {net.node("Gather", {all, net.constant({step})}, {1, 2, 4})}, {1, 2, 4}));
  const Model model = net.finish({net.node("Concat", steps, {1, 6, 4})});
  const TrainingStep gathered = training_step(model);
  CHECK(gathered.summary.gradient_adds == 0);
  CHECK(outputs(gathered.graph, "Linear0") == Names{"Gather1.out:32", "Gather3.out:32", "Gather5.out:32"});
  CHECK(input_names(gathered.graph, "Gather1/grad") ==
        Names{"Gather5.out.grad", "Gather3.out.grad", "Gather1.out.grad"});
  CHECK(gathered.graph.bytes_accessed(find(gathered.graph, "Gather1/grad")) == Bytes{96 + 2 * 96});
  const TrainingStep eager = training_step(model, {.eager_slices = true});
  CHECK(eager.summary.gradient_adds == 2);
  CHECK(outputs(eager.graph, "Gather3/grad") == Names{"Linear0.out.grad#2:96"});
  CHECK(eager.summary.backward_ops == gathered.summary.backward_ops + 4);  // 2 more zeroed tensors, 2 additions
}

TEST_CASE("the gradient of an operand that was broadcast is summed") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 3, 4});
  const ValueId h = net.node("Linear", {x, net.parameter("w", {4, 4})}, {2, 3, 4});
  SUBCASE("Add") {
    const ValueId y = net.node("Add", {h, net.parameter("p", {3, 4})}, {2, 3, 4});
    const Graph graph = training_graph(net.finish({y}));
    CHECK(graph.type(find(graph, "Add1/grad")) == "SumToShape");
    CHECK(graph.flops(find(graph, "Add1/grad")) == Flops{24});
    CHECK(outputs(graph, "Add1/grad") == Names{"p.grad:48"});
    CHECK(group(graph, "Add1/grad") == "p");
    CHECK(input_names(graph, "Linear0/grad") == Names{"Add1.out.grad", "x"});  // dA equals dY
  }
  SUBCASE("Mul") {
    const ValueId y = net.node("Mul", {h, net.parameter("p", {4})}, {2, 3, 4});
    const Graph graph = training_graph(net.finish({y}));
    CHECK(graph.flops(find(graph, "Mul1/grad")) == Flops{24 + 24 + 24});  // two products, one sum
    CHECK(outputs(graph, "Mul1/grad") == Names{"Linear0.out.grad:96", "p.grad:16"});
  }
  SUBCASE("Expand") {
    const ValueId token = net.node("Expand", {net.parameter("token", {1, 1, 4}), net.constant({2, 1, 4})}, {2, 1, 4});
    const Graph graph = training_graph(net.finish({net.node("Concat", {token, h}, {2, 4, 4})}));
    CHECK(graph.type(find(graph, "Expand1/grad")) == "SumToShape");
    CHECK(outputs(graph, "Expand1/grad") == Names{"token.grad:16"});
    CHECK(group(graph, "Concat2") == "token");
    CHECK(graph.parameter_bytes(find(graph, "Concat2")) == Bytes{16});
  }
  SUBCASE("batched MatMul") {
    const ValueId k =
        net.node("Gather", {net.parameter("k", {9, 4, 5}), net.input("i", {1}, DataType::int64)}, {1, 4, 5});
    const ValueId y = net.node("MatMul", {h, k}, {2, 3, 5});
    const Graph graph = training_graph(net.finish({y}), {.granularity = Granularity::fine});
    CHECK(graph.flops(find(graph, "MatMul2/grad_a")) == Flops{2 * 30 * 4});
    CHECK(graph.flops(find(graph, "MatMul2/grad_b")) == Flops{2 * 30 * 4 + 2 * 20});  // summed over the batch of 2
  }
}

TEST_CASE("the gradient of an operand of an Einsum is one more of its size, that reads the others") {
  ModelSketch net;
  const ValueId x = net.node("Linear", {net.input("x", {2, 3, 4}), net.parameter("v", {4, 4})}, {2, 3, 4});
  const ValueId y =
      net.node("Einsum", {x, net.parameter("w", {4, 5})}, {2, 3, 5}, {{"equation", std::string{"bik,kj->bij"}}});
  const Model model = net.finish({y});
  const TrainingStep fine = training_step(model, {.granularity = Granularity::fine});
  CHECK(input_names(fine.graph, "Einsum1/grad_a") == Names{"Einsum1.out.grad"});  // w is not a tensor
  CHECK(input_names(fine.graph, "Einsum1/grad_b") == Names{"Einsum1.out.grad", "Linear0.out"});
  for (const char* op : {"Einsum1", "Einsum1/grad_a", "Einsum1/grad_b"})  // 2 x 2 x 3 x 4 x 5
    CHECK(fine.graph.flops(find(fine.graph, op)) == Flops{240});
  const TrainingStep step = training_step(model);
  CHECK(step.graph.flops(find(step.graph, "Einsum1/grad")) == Flops{480});
  // Plus 2 x 24 x 4 for the Linear's weights; its input needs no gradient.
  CHECK(step.summary.backward_matmul_flops == Flops{480 + 192});
}

TEST_CASE("attention saves queries, keys, values and weights") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 6, 8});
  const auto project = [&](const char* name) {
    return net.node("Linear", {x, net.parameter(name, {8, 8})}, {2, 6, 8});
  };
  const ValueId q = project("q"), k = project("k"), v = project("v");
  const ValueId turned = net.node("Transpose", {k}, {2, 8, 6}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  const ValueId weights = net.node("Softmax", {net.node("MatMul", {q, turned}, {2, 6, 6})}, {2, 6, 6});
  const TrainingSummary sum = training_step(net.finish({net.node("MatMul", {weights, v}, {2, 6, 8})})).summary;
  CHECK(sum.saved_bytes == Bytes{3 * 384 + 288 + 384});            // q, k, v, softmax, log-probabilities
  CHECK(sum.forward_matmul_flops == Flops{3 * 1536 + 2 * 1152});   // each 2 x 96 x 8; matmuls 2 x 72 x 8, 2 x 96 x 6
  CHECK(sum.backward_matmul_flops == Flops{3 * 1536 + 4 * 1152});  // x needs no gradient
}

TEST_CASE("a dropout's mask is saved, and what it passes on") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 4});
  const ValueId h = net.node("Gemm", {x, net.parameter("w1", {4, 4})}, {2, 4});
  const ValueId d = net.node("Dropout", {h}, {2, 4}, {{"ratio", 0.1}});
  const Model model = net.finish({net.node("Gemm", {d, net.parameter("w2", {4, 3})}, {2, 3})});
  const TrainingStep cuda = training_step(model);
  const TrainingSummary cpu = training_step(model, {.dropout_mask_bytes = 4}).summary;
  CHECK(cuda.summary.saved_bytes == Bytes{32 + 8 + 24});  // dropped tensor, mask, log-probabilities
  CHECK(cpu.saved_bytes == Bytes{32 + 32 + 24});
  CHECK(outputs(cuda.graph, "Dropout1") == Names{"Dropout1.out:32", "Dropout1.out.mask:8"});
  CHECK(input_names(cuda.graph, "Dropout1/grad") == Names{"Dropout1.out.grad", "Dropout1.out.mask"});
}

TEST_CASE("an LSTM runs back through its sequence in one op") {
  ModelSketch net;
  const ValueId x = net.input("x", {5, 2, 3});  // steps, batch, inputs; hidden 4
  const ValueId y = net.node("LSTM", {x, net.parameter("w", {1, 16, 3}), net.parameter("r", {1, 16, 4})}, {5, 1, 2, 4});
  const TrainingStep step = training_step(net.finish({net.node("Reshape", {y, net.constant({10, 4})}, {10, 4})}));
  CHECK(step.summary.forward_matmul_flops == Flops{8 * 40 * 7});
  CHECK(step.summary.backward_matmul_flops == Flops{2 * 8 * 40 * 7 - 8 * 40 * 3});        // no gradient of x
  CHECK(outputs(step.graph, "LSTM0") == Names{"LSTM0.out:160", "LSTM0.out.gates:1120"});  // 7 x 40 floats
}

TEST_CASE("fused attention keeps its output and a number a row, no scores, and computes these again") {
  const std::string network = "llama2_7b:layers=1,seq=64,hidden=32,heads=4,kv_heads=2,inner=48,vocabulary=50,fused=";
  const TrainingStep fused = training_step(make_network(network + "1")),
                     plain = training_step(make_network(network + "0"));
  CHECK(outputs(fused.graph, "layers.0/attention") ==
        Names{"layers.0/attention.out:8192", "layers.0/attention.out.logsumexp:1024"});
  // 4 heads x 64 x 64 / 2 = 8192 pairs of 8 numbers each: 3 products for queries and keys, 2 for values.
  CHECK(fused.graph.flops(find(fused.graph, "layers.0/attention/grad")).value == 8192 * (2 * 5 * 8 + 8));
  const auto largest = [](const Graph& graph) {
    Bytes most{0};
    for (const TensorId tensor : graph.tensors())
      if (graph.layer(graph.producer(tensor)) == "layers.0") most = std::max(most, graph.bytes(tensor));
    return most;
  };
  CHECK(largest(plain.graph) == Bytes{4 * 4 * 64 * 64});  // scores of 4 heads
  CHECK(largest(fused.graph) == Bytes{4 * 64 * 48});      // the feed-forward layer
  CHECK(fused.summary.saved_bytes == plain.summary.saved_bytes - Bytes{4 * 4 * 64 * 64} + Bytes{4 * 4 * 64});
  // With dropout of the attention weights, fusion also saves the mask and the dropped weights: 4 + 1 + 4 bytes.
  for (const std::string with_dropout : {"gpt2:positions=64,", "bert_base:positions=64,inner=48,"}) {
    CAPTURE(with_dropout);
    const auto saved = [&](const char* fused_parameter) {
      return training_step(
                 make_network(with_dropout +
                              "layers=2,batch=1,seq=64,hidden=32,heads=4,vocabulary=50,fused=" + fused_parameter))
          .summary.saved_bytes;
    };
    CHECK(saved("1") == saved("0") - Bytes{2 * 9 * 4 * 64 * 64} + Bytes{2 * 4 * 4 * 64});
  }
}

TEST_CASE("gradients of a mixture of experts: each choice is weighed once, and multiplied with its output once") {
  const Graph graph = training_graph(make_network(
      "mixtral_8x7b:batch=2,seq=8,layers=1,hidden=16,heads=2,kv_heads=1,inner=24,experts=4,chosen=2,vocabulary=32"));
  // 2 x 8 tokens with 2 choices of 16 numbers: dy = w dY, dw = y dY. A token's gradient is the sum over its copies.
  CHECK(graph.flops(find(graph, "layers.0/combine/grad")).value == 2 * 8 * 2 * 16 * 3);
  CHECK(graph.flops(find(graph, "layers.0/dispatch/grad")).value == 2 * 8 * 2 * 16);
  CHECK(input_names(graph, "layers.0/combine/grad").size() == 4);  // dY, slots, weights, y
  CHECK(outputs(graph, "layers.0/combine/grad") ==
        Names{"layers.0/experts_3.out.grad:2048", "layers.0/softmax_2.out.grad:128"});
  // 4 experts of 8 rows: 2 x 4 x 8 x 16 x 24 for the data, and as much for the weights.
  CHECK(graph.flops(find(graph, "layers.0/experts/grad")).value == 2 * 2 * 4 * 8 * 16 * 24);
}

TEST_CASE("the bias that balances a router chooses experts, and no gradient trains it") {
  const Graph graph = training_graph(
      make_network("deepseek_v3:seq=8,layers=1,dense=0,hidden=16,heads=2,head_width=4,rotary=2,query_rank=6,kv_rank=6,"
                   "expert_inner=8,experts=4,chosen=2,vocabulary=32"));
  CHECK_FALSE(graph.find_op("layers.0/balance/update"));
  CHECK(graph.find_op("layers.0/experts.weight/update"));
}
