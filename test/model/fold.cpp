#include "trainyard/model/fold.hpp"

#include <doctest/doctest.h>

#include "model/made_model.hpp"

using namespace trainyard;
using test::MadeModel;
using test::Numbers;
using test::whole;

namespace {

const std::vector<std::int64_t>& contents(const MadeModel& made, ValueId id) {
  REQUIRE(made.model.values[id].contents_known);
  return made.model.values[id].integers;
}

}  // namespace

TEST_CASE("the arguments of a Reshape are followed from the shape they come from") {
  // x.view(x.size(0), -1) as exporters write it.
  MadeModel made;
  const ValueId x = made.input({8, 3, 4});
  const ValueId shape = made.node("Shape", {x});
  const ValueId batch = made.node("Gather", {shape, made.number(0)}, {{"axis", whole(0)}});
  const ValueId listed = made.node("Unsqueeze", {batch, made.numbers({0})});
  const ValueId wanted = made.node("Concat", {listed, made.numbers({-1})}, {{"axis", whole(0)}});
  const ValueId y = made.node("Reshape", {x, wanted});
  made.model.outputs = {y};
  infer_shapes(made.model);
  CHECK(contents(made, wanted) == Numbers{8, -1});
  CHECK(made.shape(y) == Shape{8, 12});
  fold_constants(made.model);
  CHECK(test::types_of(made.model) == "Reshape");
  CHECK(made.model.values.size() == 3);  // x, the new shape, y
  CHECK(made.model.values[made.model.nodes[NodeId{0}].inputs[1]].role == Value::Role::constant);
}

TEST_CASE("whole numbers are moved and calculated") {
  MadeModel made;
  const ValueId a = made.numbers({1, 2, 3, 4, 5, 6}), two = made.number(2);
  const auto expect = [&](const Numbers& expected, const std::string& type, std::vector<ValueId> inputs,
                          const std::map<std::string, Attribute>& attributes = {}) {
    CAPTURE(type);
    const ValueId y = made.node(type, std::move(inputs), attributes);
    infer_shapes(made.model, NodeId{made.model.nodes.size() - 1});
    CHECK(contents(made, y) == expected);
    return y;
  };
  expect({3, 4, 5, 6, 7, 8}, "Add", {a, two});
  expect({-1, 0, 1, 2, 3, 4}, "Sub", {a, two});
  expect({2, 4, 6, 8, 10, 12}, "Mul", {two, a});
  expect({0, 1, 1, 2, 2, 3}, "Div", {a, two});
  expect({1, 0, 1, 0, 1, 0}, "Mod", {a, two});
  const ValueId is_two = expect({0, 1, 0, 0, 0, 0}, "Equal", {a, two});
  expect({1, 0, 1, 1, 1, 1}, "Not", {is_two});
  expect({1, 9, 3, 4, 5, 6}, "Where", {is_two, made.number(9), a});
  const ValueId matrix = expect({1, 2, 3, 4, 5, 6}, "Reshape", {a, made.numbers({2, 3})});
  expect({1, 4, 2, 5, 3, 6}, "Transpose", {matrix});
  expect({3, 6}, "Gather", {matrix, made.number(-1)}, {{"axis", whole(1)}});
  expect({4, 5, 6, 1, 2, 3}, "Slice",
         {matrix, made.numbers({1}), made.numbers({-9}), made.numbers({0}), made.numbers({-1})});
  expect({2, 3, 5, 6}, "Slice", {matrix, made.numbers({1}), made.numbers({INT64_MAX}), made.numbers({1})});
  expect({1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}, "Concat", {matrix, matrix}, {{"axis", whole(1)}});
  expect({1, 2, 1, 2}, "Tile", {made.numbers({1, 2}), made.numbers({2})});
  expect({7, 7, 7}, "Expand", {made.numbers({7}), made.numbers({3})});
  expect({0, 2, 4}, "Range", {made.number(0), made.number(5), made.number(2)});
  expect({5, 5}, "ConstantOfShape", {made.numbers({2})}, {{"value", Numbers{5}}, {"value_type", whole(7)}});
  expect({24}, "Size", {made.input({2, 3, 4})});
  // sqrt(64) = 8 in floating point, as in the scale of attention.
  const ValueId real = expect({64}, "Cast", {made.number(64)}, {{"to", whole(1)}});
  const ValueId root = expect({8}, "Sqrt", {real});
  expect({8}, "Cast", {root}, {{"to", whole(7)}});
  const ValueId halves = made.node("Split", {a}, {}, 2);
  infer_shapes(made.model, NodeId{made.model.nodes.size() - 1});
  CHECK(contents(made, halves) == Numbers{1, 2, 3});
  CHECK(contents(made, ValueId{halves.index() + 1}) == Numbers{4, 5, 6});
}

TEST_CASE("what overflows, divides by zero or is too long stays unknown") {
  MadeModel made;
  const ValueId largest = made.number(INT64_MAX), least = made.number(INT64_MIN);
  const ValueId sum = made.node("Add", {largest, made.number(1)});
  const ValueId product = made.node("Mul", {largest, largest});
  const ValueId quotient = made.node("Div", {largest, made.number(0)});
  const ValueId negative = made.node("Div", {least, made.number(-1)});
  const ValueId range = made.node("Range", {made.number(0), made.number(1025), made.number(1)});
  const ValueId beyond = made.node("Gather", {made.numbers({1, 2}), made.number(5)});
  infer_shapes(made.model);
  for (const ValueId id : {sum, product, quotient, negative, range, beyond}) {
    CHECK_FALSE(made.model.values[id].contents_known);
  }
  CHECK(made.shape(range) == Shape{1025});
}

TEST_CASE("nodes that nothing reads go, outputs of the graph stay") {
  MadeModel made;
  const ValueId x = made.input({4});
  const ValueId y = made.node("Relu", {x});
  made.node("Exp", {made.node("Neg", {x})});
  made.model.outputs = {y};
  infer_shapes(made.model);
  fold_constants(made.model);
  CHECK(test::types_of(made.model) == "Relu");
}
