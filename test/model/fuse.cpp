#include "trainyard/model/fuse.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "model/made_model.hpp"

using namespace trainyard;
using test::MadeModel;
using test::Numbers;
using test::whole;

namespace {

/// Sets the model's output and fuses its patterns.
Model fused(MadeModel& made, ValueId output) {
  made.model.outputs.push_back(output);
  infer_shapes(made.model);
  fuse_patterns(made.model);
  return made.model;
}

struct LayerNorm {
  ValueId centered, output;
};

/// `exponent`: 2 where none is given.
LayerNorm layer_norm(MadeModel& made, ValueId x, Shape parameters, ValueId exponent = ValueId::none()) {
  const Numbers axes = parameters.size() == 2 ? Numbers{-2, -1} : Numbers{-1};
  const ValueId mean = made.node("ReduceMean", {x}, {{"axes", axes}});
  const ValueId centered = made.node("Sub", {x, mean});
  const ValueId square = made.node("Pow", {centered, exponent.is_none() ? made.real(2) : exponent});
  const ValueId variance = made.node("ReduceMean", {square}, {{"axes", axes}});
  const ValueId root = made.node("Sqrt", {made.node("Add", {variance, made.real(1e-5)})});
  const ValueId scaled = made.node("Mul", {made.node("Div", {centered, root}), made.parameter(parameters)});
  return {centered, made.node("Add", {scaled, made.parameter(parameters)})};
}

}  // namespace

TEST_CASE("nine operators are a LayerNormalization") {
  MadeModel made;
  const Model model = fused(made, layer_norm(made, made.input({8, 16, 32}), {32}).output);
  REQUIRE(test::types_of(model) == "LayerNormalization");
  const Node& norm = model.nodes[NodeId{0}];
  CHECK(norm.inputs.size() == 3);
  CHECK(norm.integer("axis", 0) == -1);
  CHECK(norm.real("epsilon", 0) == doctest::Approx(1e-5));
}

TEST_CASE("a LayerNormalization over the last two dimensions") {
  MadeModel made;
  const Model model = fused(made, layer_norm(made, made.input({8, 16, 32}), {16, 32}).output);
  REQUIRE(test::types_of(model) == "LayerNormalization");
  CHECK(model.nodes[NodeId{0}].integer("axis", 0) == -2);
}

TEST_CASE("a LayerNormalization squares by an exponent of 2, also as a whole number, and by no other") {
  MadeModel made;
  const ValueId x = made.input({8, 16, 32});
  SUBCASE("2") { CHECK(fused(made, layer_norm(made, x, {32}, made.number(2)).output).nodes.size() == 1); }
  SUBCASE("3") { CHECK(fused(made, layer_norm(made, x, {32}, made.number(3)).output).nodes.size() == 9); }
  SUBCASE("unknown") {
    const ValueId unknown = made.number(3);
    made.model.values[unknown].integers.clear();
    made.model.values[unknown].contents_known = false;
    CHECK(fused(made, layer_norm(made, x, {32}, unknown).output).nodes.size() == 1);
  }
}

TEST_CASE("a LayerNormalization whose inside is read elsewhere stays apart") {
  MadeModel made;
  const LayerNorm norm = layer_norm(made, made.input({8, 16, 32}), {32});
  const ValueId y = made.node("Add", {norm.output, made.node("Relu", {norm.centered})});
  CHECK(fused(made, y).nodes.size() == 11);
}

TEST_CASE("both forms of GELU in the orders that exporters use") {
  const double root_half = std::sqrt(0.5), root_two = std::sqrt(2);
  const auto erf = [&](MadeModel& m, ValueId x) {
    return m.node("Add", {m.node("Erf", {m.node("Div", {x, m.real(root_two)})}), m.real(1)});
  };
  SUBCASE("x * t * 0.5") {
    MadeModel m;
    const ValueId x = m.input({8, 32});
    CHECK(test::types_of(fused(m, m.node("Mul", {m.node("Mul", {x, erf(m, x)}), m.real(0.5)}))) == "Gelu");
  }
  SUBCASE("0.5 * x * t") {
    MadeModel m;
    const ValueId x = m.input({8, 32});
    CHECK(test::types_of(fused(m, m.node("Mul", {m.node("Mul", {m.real(0.5), x}), erf(m, x)}))) == "Gelu");
  }
  SUBCASE("x * (t * 0.5), scaled by a product") {
    MadeModel m;
    const ValueId x = m.input({8, 32});
    const ValueId t = m.node("Add", {m.real(1), m.node("Erf", {m.node("Mul", {m.real(root_half), x})})});
    CHECK(test::types_of(fused(m, m.node("Mul", {x, m.node("Mul", {t, m.real(0.5)})}))) == "Gelu");
  }
  SUBCASE("with tanh, as GPT-2 has it") {
    MadeModel m;
    const ValueId x = m.input({8, 32});
    const ValueId cube = m.node("Mul", {m.real(0.044715), m.node("Pow", {x, m.real(3)})});
    const ValueId inner = m.node("Mul", {m.real(std::sqrt(2 / 3.14159265)), m.node("Add", {x, cube})});
    const ValueId t = m.node("Add", {m.real(1), m.node("Tanh", {inner})});
    const Model model = fused(m, m.node("Mul", {m.node("Mul", {m.real(0.5), x}), t}));
    REQUIRE(test::types_of(model) == "Gelu");
    CHECK(model.nodes[NodeId{0}].text("approximate", "") == "tanh");
  }
  SUBCASE("another constant is another function") {
    MadeModel m;
    const ValueId x = m.input({8, 32});
    CHECK(fused(m, m.node("Mul", {m.node("Mul", {x, erf(m, x)}), m.real(0.7)})).nodes.size() == 5);
  }
  SUBCASE("another reader of the inside keeps it apart") {
    MadeModel m;
    const ValueId x = m.input({8, 32});
    const ValueId t = erf(m, x);
    const ValueId y = m.node("Mul", {m.node("Mul", {x, t}), m.real(0.5)});
    m.model.outputs = {t};
    CHECK(fused(m, y).nodes.size() == 5);
  }
}

TEST_CASE("a product with a weight and the bias behind it are a Linear") {
  MadeModel made;
  const ValueId x = made.input({8, 16, 32});
  const ValueId weight = made.node("Transpose", {made.parameter({64, 32})}, {{"perm", Numbers{1, 0}}});
  const ValueId product = made.node("MatMul", {x, weight});
  const Model model = fused(made, made.node("Add", {made.parameter({64}), product}));
  REQUIRE(test::types_of(model) == "Transpose Linear");
  CHECK(model.nodes[NodeId{1}].inputs.size() == 3);
}

TEST_CASE("a product with a weight is a Linear without a bias where the sum is no bias") {
  MadeModel made;
  const ValueId x = made.input({8, 16, 32});
  const ValueId product = made.node("MatMul", {x, made.parameter({32, 64})});
  SUBCASE("a residual") {
    CHECK(test::types_of(fused(made, made.node("Add", {product, made.input({8, 16, 64})}))) == "Linear Add");
  }
  SUBCASE("a position embedding") {
    CHECK(test::types_of(fused(made, made.node("Add", {product, made.parameter({16, 64})}))) == "Linear Add");
  }
  SUBCASE("two readers") {
    const ValueId biased = made.node("Add", {product, made.parameter({64})});
    CHECK(test::types_of(fused(made, made.node("Mul", {product, biased}))) == "Linear Add Mul");
  }
}

TEST_CASE("a product of activations stays a MatMul") {
  MadeModel made;
  const ValueId x = made.input({16, 32});
  CHECK(test::types_of(fused(made, made.node("MatMul", {x, made.input({32, 8})}))) == "MatMul");
}

TEST_CASE("a pool takes over the padding before it") {
  MadeModel made;
  const ValueId x = made.input({1, 8, 10, 10});
  const ValueId pads = made.numbers({0, 0, 1, 1, 0, 0, 1, 1});
  SUBCASE("an average counts the zeros") {
    const ValueId padded = made.node("Pad", {x, pads});
    const Model model = fused(made, made.node("AveragePool", {padded}, {{"kernel_shape", Numbers{3, 3}}}));
    REQUIRE(test::types_of(model) == "AveragePool");
    CHECK(model.nodes[NodeId{0}].integers("pads") == Numbers{1, 1, 1, 1});
    CHECK(model.nodes[NodeId{0}].integer("count_include_pad", 0) == 1);
    CHECK(model.values[model.outputs[0]].shape == Shape{1, 8, 10, 10});  // 10 + 2 - 3 + 1
  }
  SUBCASE("a maximum does not take zeros for the least number") {
    const ValueId padded = made.node("Pad", {x, pads});
    CHECK(fused(made, made.node("MaxPool", {padded}, {{"kernel_shape", Numbers{3, 3}}})).nodes.size() == 2);
  }
  SUBCASE("a maximum over minus infinity") {
    const ValueId filler = made.reals({-INFINITY});
    const ValueId padded = made.node("Pad", {x, pads, filler});
    CHECK(test::types_of(fused(made, made.node("MaxPool", {padded}, {{"kernel_shape", Numbers{3, 3}}}))) == "MaxPool");
  }
  SUBCASE("padding by nothing goes") {
    const ValueId padded = made.node("Pad", {x, made.numbers({0, 0, 0, 0, 0, 0, 0, 0})});
    CHECK(test::types_of(fused(made, made.node("MaxPool", {padded}, {{"kernel_shape", Numbers{3, 3}}}))) == "MaxPool");
  }
}

TEST_CASE("what does nothing goes, what may do something stays") {
  MadeModel made;
  const ValueId x = made.input({4});
  const auto after = [&](ValueId y) { return test::types_of(fused(made, made.node("Neg", {y}))); };
  SUBCASE("Identity, twice") { CHECK(after(made.node("Identity", {made.node("Identity", {x})})) == "Neg"); }
  SUBCASE("ratio 0") { CHECK(after(made.node("Dropout", {x, made.real(0), made.boolean(true)})) == "Neg"); }
  SUBCASE("not training") { CHECK(after(made.node("Dropout", {x, made.real(0.5), made.boolean(false)})) == "Neg"); }
  SUBCASE("training") { CHECK(after(made.node("Dropout", {x, made.real(0.5), made.boolean(true)})) == "Dropout Neg"); }
  SUBCASE("left open, of an inference export") {
    made.model.from_inference_export = true;
    CHECK(after(made.node("Dropout", {x})) == "Neg");
  }
  SUBCASE("left open") { CHECK(after(made.node("Dropout", {x})) == "Dropout Neg"); }
  SUBCASE("a mask that is read") {
    const ValueId y = made.node("Dropout", {x, made.real(0), made.boolean(true)}, {}, 2);
    CHECK(after(made.node("Where", {ValueId{y.index() + 1}, y, x})) == "Dropout Where Neg");
  }
  SUBCASE("the graph's own output") {
    const ValueId y = made.node("Identity", {made.node("Relu", {x})});
    CHECK(test::types_of(fused(made, y)) == "Relu");
    CHECK(made.model.outputs.size() == 1);
  }
}
