#include "trainyard/model/fold.hpp"

#include <algorithm>

namespace trainyard {

namespace {

/// Whether all contents are known: contents_known for whole numbers, `reals` for floating-point types.
bool known(const Value& value) {
  if (!value.shape_known) return false;
  if (!is_floating_point(value.type)) return value.contents_known;
  return static_cast<std::int64_t>(value.reals.size()) == elements(value.shape);
}

}  // namespace

void fold_constants(Model& model) {
  IdMap<NodeId, std::uint8_t> dead(model.nodes.size());
  for (const NodeId id : model.nodes.ids()) {
    const Node& node = model.nodes[id];
    const bool all = std::all_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId value) { return value.is_none() || known(model.values[value]); });
    if (!all) continue;
    dead[id] = 1;
    for (const ValueId value : node.outputs)
      if (!value.is_none()) model.values[value].role = Value::Role::constant;
  }
  // Walks from the last node to the first, so that a node whose only readers are dead dies too.
  IdMap<ValueId, std::uint8_t> used(model.values.size());
  for (const ValueId value : model.outputs) used[value] = 1;
  for (std::size_t i = model.nodes.size(); i-- > 0;) {
    const NodeId id{i};
    const Node& node = model.nodes[id];
    dead[id] = dead[id] || std::none_of(node.outputs.begin(), node.outputs.end(),
                                        [&](ValueId value) { return !value.is_none() && used[value]; });
    if (dead[id]) continue;
    for (const ValueId value : node.inputs)
      if (!value.is_none()) used[value] = 1;
  }
  remove_nodes(model, dead);
}

}  // namespace trainyard
