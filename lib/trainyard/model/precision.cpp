#include "trainyard/model/precision.hpp"

namespace trainyard {

Model with_precision(Model model, DataType type) {
  IdMap<ValueId, bool> stays(model.values.size(), false);
  for (const Node& node : model.nodes)
    if (node.type.ends_with("Normalization"))
      for (std::size_t i = 1; i < node.inputs.size(); ++i)
        if (!node.inputs[i].is_none()) stays[node.inputs[i]] = true;
  for (const ValueId id : model.values.ids())
    if (model.values[id].type == DataType::float32 && !stays[id]) model.values[id].type = type;
  return model;
}

}  // namespace trainyard
