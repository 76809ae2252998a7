#include "trainyard/model/model.hpp"

#include <doctest/doctest.h>

#include "model/made_model.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using test::MadeModel;

TEST_CASE("elements multiply, and a product beyond 2^59 is refused") {
  CHECK(elements({}) == 1);
  CHECK(elements({2, 3, 4}) == 24);
  CHECK(elements({std::int64_t{1} << 40, 0, std::int64_t{1} << 40}) == 0);
  CHECK(elements({std::int64_t{1} << 40, std::int64_t{1} << 19}) == std::int64_t{1} << 59);
  CHECK_THROWS_AS(elements({std::int64_t{1} << 40, std::int64_t{1} << 20}), InputError);
  CHECK_THROWS_AS(elements({std::int64_t{1} << 40, std::int64_t{1} << 40, std::int64_t{1} << 40}), InputError);
}

TEST_CASE("data types are numbered as in ONNX") {
  for (const DataType type :
       {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64, DataType::int64, DataType::int32,
        DataType::int16, DataType::int8, DataType::uint8, DataType::boolean}) {
    CHECK(data_type_from_onnx(onnx_number(type)) == type);
  }
  CHECK(bytes_per_element(*data_type_from_onnx(10)) == 2);
  CHECK(name_of(*data_type_from_onnx(13)) == "int64");  // unsigned types count as signed
  CHECK_FALSE(data_type_from_onnx(8));                  // strings are not supported
  CHECK_FALSE(data_type_from_onnx(-1));
}

TEST_CASE("attributes have a kind") {
  const Node node{
      .name = "n", .type = "T", .attributes = {{"a", std::int64_t{3}}, {"b", 0.5}, {"c", std::string{"x"}}}};
  CHECK(node.integer("a", 0) == 3);
  CHECK(node.real("a", 0) == 3);
  CHECK(node.real("b", 0) == 0.5);
  CHECK(node.text("c", "") == "x");
  CHECK(node.integer("absent", 7) == 7);
  CHECK(node.integers("absent", {1, 2}) == std::vector<std::int64_t>{1, 2});
  CHECK_THROWS_WITH_AS(static_cast<void>(node.integer("b", 0)), "T 'n': the attribute 'b' is not a whole number",
                       InputError);
  CHECK_THROWS_AS(static_cast<void>(node.integers("c")), InputError);
}

TEST_CASE("parameters are counted, buffers and constants are not") {
  MadeModel made;
  made.parameter({3, 4});
  made.parameter({5});
  made.value("running_mean", {100}, Value::Role::buffer);
  made.numbers({1, 2, 3});
  CHECK(made.model.parameter_count() == 17);  // 3 * 4 + 5; buffers and constants do not count
}

TEST_CASE("removing a node removes what only it mentioned, and keeps inputs and parameters") {
  MadeModel made;
  const ValueId x = made.input({4}), unused = made.parameter({2});
  const ValueId y = made.node("Relu", {x});
  const ValueId z = made.node("Neg", {y});
  made.model.outputs = {y};
  IdMap<NodeId, std::uint8_t> dead(2);
  dead[NodeId{1}] = 1;
  CHECK_THROWS_AS(remove_nodes(made.model, {}), InputError);
  remove_nodes(made.model, dead);
  CHECK(test::types_of(made.model) == "Relu");
  CHECK(made.model.values.size() == 3);
  CHECK(made.model.values[made.model.outputs[0]].name == "Relu0.0");
  CHECK(made.model.values[unused].role == Value::Role::parameter);
  CHECK(z.index() == 3);
}
