#include "trainyard/model/precision.hpp"

#include <doctest/doctest.h>

#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

TEST_CASE("in bfloat16 parameters and activations are short, what normalizations scale by is not") {
  const Model wide = make_network("resnet18:batch=1,image=32"), model = with_precision(wide, DataType::bfloat16);
  std::int64_t scales = 0;
  for (const Node& node : model.nodes) {
    CHECK(model.values[node.outputs[0]].type != DataType::float32);
    if (node.type == "Conv") CHECK(model.values[node.inputs[1]].type == DataType::bfloat16);
    if (node.type != "BatchNormalization") continue;
    ++scales;
    CHECK(model.values[node.inputs[0]].type == DataType::bfloat16);
    CHECK(model.values[node.inputs[1]].type == DataType::float32);
  }
  CHECK(scales == 20);
  const Graph before = training_graph(wide, {}), after = training_graph(model, {});
  CHECK(after.op_count() == before.op_count());
  for (const TensorId tensor : after.tensors()) CHECK(after.bytes(tensor) <= before.bytes(tensor));
}

TEST_CASE("a model in the precision that it has is the same model") {
  const Model model = make_network("lenet:batch=1"), same = with_precision(model, DataType::float32);
  for (const ValueId id : model.values.ids()) CHECK(same.values[id].type == model.values[id].type);
}
