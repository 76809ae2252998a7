#include "profiler/kernels/step_program.hpp"

namespace trainyard::kernels {

const Value& result_value(const Model& model, const OpRecipe& op, const OpRecipe::Result& result) {
  switch (op.kind) {
    case OpRecipe::Kind::forward:
      return model.values[model.nodes[op.node].outputs[result.position]];
    case OpRecipe::Kind::backward:
      return model.values[model.nodes[op.node].inputs[result.position]];
    case OpRecipe::Kind::view_gradient:
      return model.values[model.nodes[op.node].inputs[0]];
    default:
      return model.values[op.value];
  }
}

}  // namespace trainyard::kernels
