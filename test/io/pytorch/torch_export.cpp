#include "trainyard/io/pytorch/torch_export.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;
using test::contains;

namespace {

std::string exported_tensor(const char* name, const std::string& sizes) {
  return fmt::format(
      R"("{}": {{"dtype": 7, "sizes": [{}], "requires_grad": false, "device": {{"type": "cpu", "index": )"
      R"(null}}, "strides": [], "storage_offset": {{"as_int": 0}}, "layout": 7}})",
      name, sizes);
}
std::string of_sizes(std::initializer_list<int> sizes) {
  std::string text;
  for (const int size : sizes) text += fmt::format(R"({}{{"as_int": {}}})", text.empty() ? "" : ", ", size);
  return text;
}
std::string exported_argument(const char* name, const std::string& kind, const std::string& value) {
  return fmt::format(R"({{"name": "{}", "arg": {{"{}": {}}}, "kind": 1}})", name, kind, value);
}
std::string exported_tensor_argument(const char* name, const char* tensor) {
  return exported_argument(name, "as_tensor", fmt::format(R"({{"name": "{}"}})", tensor));
}
std::string exported_node(const char* target, const std::string& inputs, const char* output) {
  return fmt::format(
      R"({{"target": "torch.ops.aten.{}", "inputs": [{}], "outputs": [{{"as_tensor": {{"name": "{}"}}}}], )"
      R"("metadata": {{"nn_module_stack": "L__self__,,M;L__self___fc,fc,torch.nn.Linear"}}}})",
      target, inputs, output);
}

const char* const kOpenBatch = R"({"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}})";

/// An exported program: x (s0, 3, 8, 8), convolution to 4 channels, relu, mean over space, 10 classes.
std::string exported_network(const std::string& batch = kOpenBatch, const std::string& last = "linear.default") {
  const std::string values =
      exported_tensor("p_w", of_sizes({4, 3, 3, 3})) + ", " + exported_tensor("p_fc", of_sizes({10, 4})) + ", " +
      exported_tensor("p_b", of_sizes({10})) + ", " + exported_tensor("x", batch + ", " + of_sizes({3, 8, 8})) + ", " +
      exported_tensor("conv", batch + ", " + of_sizes({4, 8, 8})) + ", " +
      exported_tensor("relu", batch + ", " + of_sizes({4, 8, 8})) + ", " +
      exported_tensor("pool", batch + ", " + of_sizes({4, 1, 1})) + ", " +
      exported_tensor("flat", batch + ", " + of_sizes({4})) + ", " +
      exported_tensor("fc", batch + ", " + of_sizes({10}));
  const std::string nodes =
      exported_node("conv2d.default",
                    exported_tensor_argument("input", "x") + ", " + exported_tensor_argument("weight", "p_w") + ", " +
                        exported_argument("padding", "as_ints", "[1, 1]"),
                    "conv") +
      ", " + exported_node("relu_.default", exported_tensor_argument("self", "conv"), "relu") + ", " +
      exported_node("adaptive_avg_pool2d.default", exported_tensor_argument("self", "relu"), "pool") + ", " +
      exported_node("flatten.using_ints", exported_tensor_argument("self", "pool"), "flat") + ", " +
      exported_node(last.c_str(),
                    exported_tensor_argument("input", "flat") + ", " + exported_tensor_argument("weight", "p_fc") +
                        ", " + exported_tensor_argument("bias", "p_b"),
                    "fc");
  return fmt::format(
      R"({{"graph_module": {{"graph": {{"inputs": [], "outputs": [{{"as_tensor": {{"name": "fc"}}}}], )"
      R"("nodes": [{}], "tensor_values": {{{}}}}}, "signature": {{"input_specs": [{{"parameter": {{"arg": )"
      R"({{"name": "p_w"}}, "parameter_name": "conv.weight"}}}}, {{"parameter": {{"arg": {{"name": "p_fc"}}, )"
      R"("parameter_name": "fc.weight"}}}}, {{"parameter": {{"arg": {{"name": "p_b"}}, "parameter_name": )"
      R"("fc.bias"}}}}, {{"user_input": {{"arg": {{"as_tensor": {{"name": "x"}}}}}}}}], "output_specs": )"
      R"([{{"user_output": {{"arg": {{"as_tensor": {{"name": "fc"}}}}}}}}]}}}}, "schema_version": {{"major": )"
      R"(8, "minor": 2}}}})",
      nodes, values);
}

std::string refused_program(const std::string& text) {
  return test::refusal_text([&] { parse_exported_program(text, "model.json"); });
}
std::string with(std::string text, const std::string& part, const std::string& by) {
  return text.replace(text.find(part), part.size(), by);
}
}  // namespace

TEST_CASE("a program of torch.export is a network: parameters, inputs, operators and their shapes") {
  const Model model = parse_exported_program(exported_network(), "model.json");
  // Weights: 4 x 27 of the convolution, 40 + 10 of the classifier.
  CHECK(model.parameter_count() == 108 + 50);
  REQUIRE(model.inputs.size() == 1);
  CHECK(model.values[model.inputs[0]].shape == Shape{2, 3, 8, 8});
  std::string types;
  for (const Node& node : model.nodes) types += node.type + " ";
  CHECK(types == "Conv Relu GlobalAveragePool Reshape Transpose Linear ");
  CHECK(model.values[model.outputs.at(0)].shape == Shape{2, 10});
  CHECK(model.nodes[NodeId{5}].layer == "fc");
  CHECK(contains(model.notes.front(), "the size s0 is 2, as in the example"));
  // Forward FLOPs: 2 x 2 x 4 x 64 x 27 of the convolution, 2 x 2 x 4 x 10 of the classifier.
  const TrainingStep step = training_step(model, {});
  double forward = 0;
  for (const OpId op : step.graph.ops())
    if (step.graph.type(op) == "Conv" || step.graph.type(op) == "Linear") forward += step.graph.flops(op).value;
  CHECK(forward >= 2 * 2 * 4 * 64 * 27 + 2 * 2 * 4 * 10);
}

TEST_CASE("sizes that a program leaves open are bound, or its example's") {
  const Model model = parse_exported_program(exported_network(), "model.json", {{"s0", 32}});
  CHECK(model.values[model.inputs[0]].shape == Shape{32, 3, 8, 8});
  CHECK(model.notes.empty());
  CHECK(contains(refused_program(exported_network(R"({"as_expr": {"expr_str": "s0"}})")), "the size s0 is open"));
  CHECK_THROWS_AS(parse_exported_program(exported_network(), "model.json", {{"s1", 2}}), InputError);
}

TEST_CASE("of operators without a counterpart the shapes are known") {
  const Model model = parse_exported_program(exported_network(kOpenBatch, "fancy.default"), "model.json");
  CHECK(model.nodes[NodeId{4}].type == "aten::fancy");
  CHECK(contains(model.notes.back(), "only the shapes of operator aten::fancy ('fc') are known"));
}

TEST_CASE("attention whose keys have no columns to be transposed stays an operator without a counterpart") {
  const std::string inputs = exported_tensor_argument("query", "relu") + ", " + exported_tensor_argument("key", "p_b") +
                             ", " + exported_tensor_argument("value", "relu");
  const Model model = parse_exported_program(
      with(exported_network(),
           exported_node("adaptive_avg_pool2d.default", exported_tensor_argument("self", "relu"), "pool"),
           exported_node("scaled_dot_product_attention.default", inputs, "pool")),
      "model.json");
  CHECK(model.nodes[NodeId{2}].type == "aten::scaled_dot_product_attention");
}

TEST_CASE("what is wrong with a program of torch.export is said at its place") {
  const std::string good = exported_network();
  CHECK(contains(refused_program(good.substr(0, 300)), "cut short"));
  CHECK(contains(refused_program(with(good, R"("self", "arg": {"as_tensor": {"name": "conv"}})",
                                      R"("self", "arg": {"as_tensor": {"name": "cnv"}})")),
                 "a node reads 'cnv', which nothing before it makes"));
  CHECK(contains(refused_program(with(good, "\"relu\": {\"dtype\"", "\"rleu\": {\"dtype\"")),
                 "'relu' has no type and shape"));
  CHECK(contains(refused_program(with(good, "\"dtype\": 7", "\"dtype\": 9")), "data type 9, which is not supported"));
  std::string deep = of_sizes({1});
  for (int i = 1; i < 65; ++i) deep += ", " + of_sizes({1});
  CHECK(contains(refused_program(with(good, exported_tensor("p_b", of_sizes({10})), exported_tensor("p_b", deep))),
                 "'p_b' has more than 64 dimensions"));
  CHECK(contains(refused_program(with(good, "\"user_output\"", "\"gradient_to_parameter\"")), "contains gradients"));
  CHECK(contains(refused_program(R"({"graph_module": {}})"), "the program is incomplete"));
}
