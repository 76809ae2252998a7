#include "trainyard/place/kit/layers.hpp"

#include <algorithm>
#include <unordered_map>

namespace trainyard {
namespace {

/// The op whose layer an op without a layer name joins; none() if it has no producers.
OpId leader(const Graph& graph, OpId op, const IdMap<OpId, std::size_t>& position) {
  OpId last, last_forward;
  const auto later = [&](OpId a, OpId b) { return b.is_none() || position[a] > position[b] ? a : b; };
  const auto offer = [&](OpId candidate) {
    last = later(candidate, last);
    if (graph.phase(candidate) == Phase::forward) last_forward = later(candidate, last_forward);
  };
  for (const TensorId tensor : graph.inputs(op)) offer(graph.producer(tensor));
  if (last.is_none())
    for (const OpId earlier : graph.after(op)) offer(earlier);
  return graph.phase(op) == Phase::backward && !last_forward.is_none() ? last_forward : last;
}

OpId first_reader(const Graph& graph, OpId op, const IdMap<OpId, std::size_t>& position) {
  OpId first;
  for (const TensorId tensor : graph.outputs(op))
    for (const OpId reader : graph.consumers(tensor))
      if (first.is_none() || position[reader] < position[first]) first = reader;
  return first;
}

}  // namespace

std::string_view block_of(std::string_view layer) { return layer.substr(0, layer.find('/')); }

std::string_view stem_of(std::string_view block) {
  std::size_t digits = 0;
  while (digits < block.size() && block[block.size() - 1 - digits] >= '0' && block[block.size() - 1 - digits] <= '9')
    ++digits;
  return digits == 0 ? std::string_view{} : block.substr(0, block.size() - digits);
}

Layers find_layers(const Graph& graph) {
  const auto& order = graph.topological_order();
  IdMap<OpId, std::size_t> position(graph.op_count());
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  const bool named = std::ranges::any_of(order, [&](OpId op) { return !graph.layer(op).empty(); });

  Layers layers{.of = IdMap<OpId, LayerId>(graph.op_count())};
  std::unordered_map<std::string_view, LayerId> by_name;
  const auto add_layer = [&](std::string_view name) {
    const LayerId id{layers.names.size()};
    layers.names.emplace_back(name);
    return id;
  };
  // Forward ops first: backward ops run in the opposite order and must not number the layers.
  for (const bool forward : {true, false})
    for (const OpId op : order) {
      if ((graph.phase(op) == Phase::forward) != forward) continue;
      const std::string& name = graph.layer(op);
      if (named && !name.empty()) {
        const auto at = by_name.find(name);
        layers.of[op] = at != by_name.end() ? at->second : (by_name[name] = add_layer(name));
      } else if (!named && forward) {
        layers.of[op] = add_layer(graph.name(op));
      } else if (const OpId lead = leader(graph, op, position); !lead.is_none()) {
        layers.of[op] = layers.of[lead];  // may be none so far, behind a source without a layer
      }
    }
  for (auto at = order.rbegin(); at != order.rend(); ++at)
    if (layers.of[*at].is_none())
      if (const OpId reader = first_reader(graph, *at, position); !reader.is_none()) layers.of[*at] = layers.of[reader];
  if (layers.names.empty()) add_layer("");
  layers.ops.assign(layers.names.size(), {});
  for (const OpId op : order) {
    if (layers.of[op].is_none()) layers.of[op] = LayerId{0};
    layers.ops[layers.of[op]].push_back(op);
  }
  return layers;
}

}  // namespace trainyard
