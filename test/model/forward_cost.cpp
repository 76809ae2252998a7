#include "trainyard/model/forward_cost.hpp"

#include <doctest/doctest.h>

#include "support/model_sketch.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

using namespace trainyard;
using trainyard::test::ModelSketch;

namespace {

ForwardCost cost_of_last(const ModelSketch& net, std::int64_t mask_bytes = 1) {
  return forward_cost(net.model(), net.last_node(), mask_bytes);
}

ForwardCost cost(double flops, double matmul, std::int64_t bytes) {
  return {Flops{flops}, Flops{matmul}, Bytes{bytes}};
}

}  // namespace

TEST_CASE("a convolution counts two FLOPs per multiply-add, and one per output for its bias") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 4, 8, 8});
  net.node("Conv", {x, net.parameter("w", {6, 4, 3, 3}), net.parameter("b", {6})}, {2, 6, 8, 8});
  // Outputs: 2 x 6 x 64 = 768. Products: 2 x 768 x 4 x 9 = 55296. Bytes: 4 x (512 + 216 + 6 + 768) = 6008.
  CHECK(cost_of_last(net) == cost(55296 + 768, 55296, 6008));
}

TEST_CASE("a grouped convolution reads a group's channels only") {
  ModelSketch net;
  const ValueId x = net.input("x", {1, 4, 8, 8});
  net.node("Conv", {x, net.parameter("w", {4, 1, 3, 3})}, {1, 4, 8, 8}, {{"group", std::int64_t{4}}});
  // Products: 2 x 256 x 9 = 4608. Bytes: 4 x (256 + 36 + 256).
  CHECK(cost_of_last(net) == cost(4608, 4608, 2192));
}

TEST_CASE("a transposed convolution counts its input") {
  ModelSketch net;
  const ValueId x = net.input("x", {1, 4, 5, 5});
  net.node("ConvTranspose", {x, net.parameter("w", {4, 3, 2, 2})}, {1, 3, 10, 10});
  // Products: 2 x 100 x 3 x 4 = 2400. Bytes: 4 x (100 + 48 + 300).
  CHECK(cost_of_last(net) == cost(2400, 2400, 1792));
}

TEST_CASE("matrix products count the shared dimension") {
  ModelSketch net;
  const ValueId a = net.input("a", {2, 3});
  SUBCASE("Gemm") {
    net.node("Gemm", {a, net.parameter("w", {3, 5}), net.parameter("c", {5})}, {2, 5});
    CHECK(cost_of_last(net) == cost(60 + 10, 60, 4 * (6 + 15 + 5 + 10)));  // 2 x 2 x 3 x 5
  }
  SUBCASE("Gemm of a transposed input") {
    net.node("Gemm", {a, net.parameter("w", {2, 5})}, {3, 5}, {{"transA", std::int64_t{1}}});
    CHECK(cost_of_last(net) == cost(60, 60, 4 * (6 + 10 + 15)));  // 2 x 3 x 2 x 5
  }
  SUBCASE("Linear on a sequence") {
    const ValueId x = net.input("x", {2, 7, 3});
    net.node("Linear", {x, net.parameter("w", {3, 4}), net.parameter("b", {4})}, {2, 7, 4});
    CHECK(cost_of_last(net) == cost(336 + 56, 336, 4 * (42 + 12 + 4 + 56)));  // 2 x 56 x 3
  }
  SUBCASE("Linear without a bias") {
    const ValueId x = net.input("x", {2, 7, 3});
    net.node("Linear", {x, net.parameter("w", {3, 4}), ValueId::none()}, {2, 7, 4});
    CHECK(cost_of_last(net) == cost(336, 336, 4 * (42 + 12 + 56)));
  }
  SUBCASE("MatMul in a batch") {
    const ValueId q = net.input("q", {2, 8, 16, 4}), k = net.input("k", {2, 8, 4, 16});
    net.node("MatMul", {q, k}, {2, 8, 16, 16});
    CHECK(cost_of_last(net) == cost(32768, 32768, 4 * (1024 + 1024 + 4096)));  // 2 x 4096 x 4
  }
  SUBCASE("a square of one tensor reads it once") {
    const ValueId s = net.input("s", {4, 4});
    net.node("MatMul", {s, s}, {4, 4});
    CHECK(cost_of_last(net) == cost(128, 128, 4 * (16 + 16)));
  }
}

TEST_CASE("an Einsum is a multiply-add for each combination of its letters") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 3, 4}), w = net.parameter("w", {4, 5});
  const auto of = [&](std::vector<ValueId> inputs, Shape shape, const char* equation) {
    net.node("Einsum", std::move(inputs), std::move(shape), {{"equation", std::string{equation}}});
    return cost_of_last(net);
  };
  CHECK(of({x, w}, {2, 3, 5}, "bik,kj->bij") == cost(240, 240, 4 * (24 + 20 + 30)));  // 2 x 2 x 3 x 4 x 5
  CHECK(of({x, w}, {2, 3, 5}, "... k, kj -> ...j") == of({x, w}, {2, 3, 5}, "bik,kj"));
  CHECK(of({w, x}, {2, 3, 5}, "kj,...k->...j") == cost(240, 240, 4 * (24 + 20 + 30)));
  CHECK(of({x, net.input("y", {3, 4}), net.input("z", {4})}, {2}, "...bk,bk,k->...") == cost(48, 48, 4 * 42));
  CHECK(of({x}, {2, 3}, "bik->bi") == cost(24, 0, 4 * (24 + 6)));  // a sum over k
}

TEST_CASE("a batch normalization reads its input twice and six numbers per channel") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 3, 4, 4});  // 96 elements
  const std::vector<ValueId> inputs{x, net.parameter("scale", {3}), net.parameter("bias", {3}), net.buffer("mean", {3}),
                                    net.buffer("var", {3})};
  SUBCASE("in training") {
    net.nodes("BatchNormalization", inputs, {{2, 3, 4, 4}, {3}, {3}}, {{"training_mode", std::int64_t{1}}});
    CHECK(cost_of_last(net) == cost(768, 0, 4 * (3 * 96 + 6 * 3)));
  }
  SUBCASE("frozen it scales and shifts") {
    net.node("BatchNormalization", inputs, {2, 3, 4, 4}, {{"training_mode", std::int64_t{0}}});
    CHECK(cost_of_last(net) == cost(192, 0, 4 * 2 * 96));
  }
}

TEST_CASE("pools count their window, global ones what they read") {
  ModelSketch net;
  const ValueId x = net.input("x", {1, 2, 6, 6});
  SUBCASE("MaxPool") {
    net.node("MaxPool", {x}, {1, 2, 3, 3}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
    CHECK(cost_of_last(net) == cost(72, 0, 4 * (72 + 18)));  // 18 x 4
  }
  SUBCASE("GlobalAveragePool") {
    net.node("GlobalAveragePool", {x}, {1, 2, 1, 1});
    CHECK(cost_of_last(net) == cost(72, 0, 4 * (72 + 2)));
  }
  SUBCASE("ReduceMean") {
    net.node("ReduceMean", {x}, {1, 2, 6});
    CHECK(cost_of_last(net) == cost(72, 0, 4 * (72 + 12)));
  }
}

TEST_CASE("element-wise ops count a constant per element") {
  const auto flops = [](const std::string& type) {
    ModelSketch net;
    const ValueId x = net.input("x", {10});
    net.node(type, {x}, {10});
    const ForwardCost found = cost_of_last(net);
    CHECK(found.bytes == Bytes{80});
    CHECK(found.matmul_flops == Flops{0});
    return found.flops.value;
  };
  CHECK(flops("Relu") == 10);
  CHECK(flops("Sigmoid") == 40);
  CHECK(flops("Tanh") == 50);
  CHECK(flops("Gelu") == 100);
  CHECK(flops("Softmax") == 50);
  CHECK(flops("LayerNormalization") == 80);
  CHECK(flops("SomethingNew") == 10);
}

TEST_CASE("a dropout writes a mask of one byte per element, or of four") {
  ModelSketch net;
  net.node("Dropout", {net.input("x", {10})}, {10}, {{"ratio", 0.5}});
  CHECK(cost_of_last(net) == cost(20, 0, 40 + 40 + 10));
  CHECK(cost_of_last(net, 4) == cost(20, 0, 40 + 40 + 40));
}

TEST_CASE("an embedding reads the rows that it takes, not the table") {
  ModelSketch net;
  const ValueId ids = net.input("ids", {2, 3}, DataType::int64);
  net.node("Gather", {net.parameter("table", {1000, 4}), ids}, {2, 3, 4});
  CHECK(cost_of_last(net) == cost(0, 0, 6 * 8 + 2 * 24 * 4));
}

TEST_CASE("an LSTM reads its weights in every step") {
  ModelSketch net;
  const ValueId x = net.input("x", {5, 2, 3});  // 5 steps, batch 2, 3 inputs; hidden 4
  net.nodes("LSTM", {x, net.parameter("w", {1, 16, 3}), net.parameter("r", {1, 16, 4}), net.parameter("b", {1, 32})},
            {{5, 1, 2, 4}});
  // 40 cells (directions x steps x batch x hidden): 8 x 40 x (3 + 4) = 2240 FLOPs in products, 38 x 40 = 1520
  // elsewhere. Bytes: 4 x (30 + 48 + 64 + 32 + 40) once, and the weights' 4 x (48 + 64) in each of four further steps.
  CHECK(cost_of_last(net) == cost(2240 + 1520, 2240, 856 + 4 * 448));
}

TEST_CASE("views cost nothing") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 6});
  const auto kind = [&] { return view_kind(net.model(), net.last_node()); };
  SUBCASE("Reshape") {
    net.node("Reshape", {x, net.constant({3, 4})}, {3, 4});
    CHECK(kind() == ViewKind::alias);
  }
  SUBCASE("Transpose") {
    net.node("Transpose", {x}, {6, 2});
    CHECK(kind() == ViewKind::alias);
  }
  SUBCASE("Slice") {
    net.node("Slice", {x}, {2, 3});
    CHECK(kind() == ViewKind::slice);
  }
  SUBCASE("Slice of everything") {
    net.node("Slice", {x}, {2, 6});
    CHECK(kind() == ViewKind::alias);
  }
  SUBCASE("Split") {
    net.nodes("Split", {x}, {{2, 2}, {2, 4}});
    CHECK(kind() == ViewKind::slice);
  }
  SUBCASE("Expand") {
    net.node("Expand", {x, net.constant({5, 2, 6})}, {5, 2, 6});
    CHECK(kind() == ViewKind::spread);
  }
  SUBCASE("a Gather of one known index") {
    net.node("Gather", {x, net.constant({1})}, {6});
    CHECK(kind() == ViewKind::slice);
  }
  SUBCASE("a Dropout of ratio 0") {
    net.node("Dropout", {x, net.constant({0}), net.constant({1})}, {2, 6});
    CHECK(kind() == ViewKind::alias);
  }
  SUBCASE("a Dropout outside training") {
    net.node("Dropout", {x, net.input("ratio", {}), net.constant({0})}, {2, 6});
    CHECK(kind() == ViewKind::alias);
  }
  SUBCASE("a Cast to the same type") {
    net.node("Cast", {x}, {2, 6});
    CHECK(kind() == ViewKind::alias);
  }
  CHECK(cost_of_last(net) == ForwardCost{});
}

TEST_CASE("a Cast to another type is a copy") {
  ModelSketch net;
  net.node("Cast", {net.input("x", {10})}, {10}, {}, DataType::float16);
  CHECK(cost_of_last(net) == cost(0, 0, 40 + 20));
}

TEST_CASE("views of views share the storage of the first") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 6});
  const ValueId y = net.node("Relu", {x}, {2, 6});
  const ValueId rows = net.node("Slice", {y}, {1, 6});
  const ValueId column = net.node("Transpose", {rows}, {6, 1});
  const auto roots = storage_roots(net.model());
  CHECK(roots[x] == x);
  CHECK(roots[y] == y);
  CHECK(roots[rows] == y);
  CHECK(roots[column] == y);
}

TEST_CASE("a shape that is not known is an error that names the value") {
  Model model;
  model.values.push_back({.name = "x", .role = Value::Role::input});
  model.values.push_back({.name = "y"});
  const Node node{.name = "r", .type = "Relu", .inputs = {ValueId{0}}, .outputs = {ValueId{1}}};
  CHECK_THROWS_WITH_AS(forward_cost(model, node), "the shape of 'y' is not known", InputError);
}

TEST_CASE("fused attention multiplies each query with each key and value, with a causal mask half of them") {
  ModelSketch net;
  const ValueId q = net.input("q", {2, 4, 8, 16}), k = net.input("k", {2, 2, 8, 16}), v = net.input("v", {2, 2, 8, 12});
  // 2 x 4 x 8 x 8 = 512 pairs with 2 (16 + 12) FLOPs in products and 5 elsewhere. Bytes: 4 x (1024 + 512 + 384 + 768),
  // as scores stay on chip.
  SUBCASE("all") {
    net.node("Attention", {q, k, v}, {2, 4, 8, 12});
    CHECK(cost_of_last(net) == cost(28'672 + 2'560, 28'672, 4 * 2'688));
  }
  SUBCASE("causal") {
    net.node("Attention", {q, k, v}, {2, 4, 8, 12}, {{"is_causal", std::int64_t{1}}});
    CHECK(cost_of_last(net) == cost(14'336 + 1'280, 14'336, 4 * 2'688));
  }
}

TEST_CASE("what takes tokens to experts only moves them, what brings them back adds them up") {
  ModelSketch net;
  const ValueId x = net.input("x", {2, 5, 8}), slots = net.input("slots", {2, 5, 3}, DataType::int64);
  SUBCASE("dispatch") {
    net.node("ExpertDispatch", {x, slots}, {4, 12, 8}, {{"experts", std::int64_t{4}}, {"capacity", std::int64_t{6}}});
    CHECK(cost_of_last(net) == cost(0, 0, 4 * (80 + 384) + 8 * 30));
  }
  SUBCASE("combine: a multiply-add a choice, 2 x 3 x 80") {
    net.node("ExpertCombine", {net.input("y", {4, 12, 8}), net.input("w", {2, 5, 3}), slots}, {2, 5, 8});
    CHECK(cost_of_last(net) == cost(480, 0, 4 * (384 + 30 + 80) + 8 * 30));
  }
}
