#include "trainyard/model/check_model.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "support/refusal.hpp"
#include "trainyard/model/model.hpp"

using namespace trainyard;

namespace {

/// A network y = Linear(x, w), z = Relu(y) with x of 32x64, w of 64x10, y and z of 32x10.
Model two_nodes() {
  Model model{.name = "two"};
  model.values.push_back({.name = "x", .shape = {32, 64}, .shape_known = true, .role = Value::Role::input});
  model.values.push_back({.name = "w", .shape = {64, 10}, .shape_known = true, .role = Value::Role::parameter});
  model.values.push_back({.name = "y", .shape = {32, 10}, .shape_known = true});
  model.values.push_back({.name = "z", .shape = {32, 10}, .shape_known = true});
  model.nodes.push_back({.name = "fc", .type = "Linear", .inputs = {ValueId{0}, ValueId{1}}, .outputs = {ValueId{2}}});
  model.nodes.push_back({.name = "relu", .type = "Relu", .inputs = {ValueId{2}}, .outputs = {ValueId{3}}});
  model.inputs = {ValueId{0}};
  model.outputs = {ValueId{3}};
  return model;
}

/// "code: message" of the first finding after `change` to the model; empty if there is none.
template <class Change>
std::string refused(const Change& change) {
  Model model = two_nodes();
  change(model);
  return test::refusal_of([&] { check_model(model); });
}

}  // namespace

TEST_CASE("a network by hand is refused where its parts do not fit, and the message names them") {
  const NodeId fc{0}, relu{1};
  const ValueId x{0}, w{1}, y{2};
  CHECK(refused([](Model&) {}) == "");
  CHECK(refused([&](Model& m) { m.nodes[fc].type = "Linea"; }) ==
        "unknown-operator: Linea 'fc': the shapes that this operator produces are not known");
  CHECK(refused([&](Model& m) { m.values[w].shape = {63, 10}; }).starts_with("shape-mismatch: Linear 'fc': "));
  CHECK(refused([&](Model& m) {
          m.values[y].shape = {1, 1};
        }) == "shape-mismatch: Linear 'fc': its output 'y' is 1x1, but its inputs give 32x10");
  CHECK(refused([&](Model& m) { m.values[x].shape = {-32, 64}; }) == "range: 'x' has a dimension of -32");
  CHECK(refused([&](Model& m) { m.nodes[fc].inputs.clear(); }) == "shape-mismatch: Linear 'fc': input 0 is missing");
  CHECK(refused([&](Model& m) { m.nodes[fc].inputs[1] = ValueId{99}; }) ==
        "unknown-value: Linear 'fc' names value 99, but there are 4 values");
  CHECK(refused([&](Model& m) { m.outputs = {ValueId{99}}; }) ==
        "unknown-value: a list of inputs or outputs names value 99, but there are 4 values");
  CHECK(refused([&](Model& m) {
          m.values.push_back({.name = "other"});
          m.outputs = {ValueId{4}};
        }) == "unknown-value: no node makes the output 'other', and it is not given");
  CHECK(refused([&](Model& m) { m.outputs = {y, x, w}; }) == "");
  CHECK(refused([&](Model& m) { std::swap(m.nodes[fc], m.nodes[relu]); }) ==
        "order: Relu 'relu' reads 'y', which no node before it makes");
  CHECK(refused([&](Model& m) { m.nodes[relu].outputs = {y}; }) ==
        "two-producers: Relu 'relu' makes 'y', which already exists");
}

TEST_CASE("an operator of the caller's own has its domain before its name") {
  CHECK(refused([](Model& m) { m.nodes[NodeId{0}].type = "my::Linea"; }) == "");
}
