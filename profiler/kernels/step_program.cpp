#include "profiler/kernels/step_program.hpp"

#include <numeric>

namespace trainyard::kernels {

std::vector<std::size_t> places_of_parts(const Shape& shape, std::span<const Part> parts) {
  std::vector<std::size_t> all(static_cast<std::size_t>(elements(shape)));
  std::iota(all.begin(), all.end(), std::size_t{0});
  return numbers_of_parts(std::move(all), shape, parts);
}

Shape part_shape(const Shape& shape, const Part& part) {
  if (!part.cut) {
    const std::int64_t all = elements(shape), of = static_cast<std::int64_t>(part.of),
                       index = static_cast<std::int64_t>(part.index);
    return {all * (index + 1) / of - all * index / of};
  }
  Shape made = shape;
  made[part.cut->dimension] = 0;
  for (const std::int64_t block : part.cut->blocks) made[part.cut->dimension] += block;
  return made;
}

const Value& result_value(const Model& model, const OpRecipe& op, const OpRecipe::Result& result) {
  if (!result.like.is_none()) return model.values[result.like];
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
