#include "trainyard/place/pipedream/pipedream_placer.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/graph/strong_components.hpp"
#include "trainyard/graph/topological_order.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/pipedream/pipedream.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostSplitStates = 2'000;

/// Turns the profile into a chain: layers in topological order, with neighbours joined until there are at most
/// kMostSplitStates. Returns each layer's place in the chain.
std::vector<std::size_t> as_chain(LayerProfile& profile) {
  const std::size_t count = profile.layers.size(), places = std::min(count, kMostSplitStates);
  std::vector<std::vector<std::size_t>> after(count);
  std::vector<std::size_t> place(count);
  for (const auto& [from, to] : profile.edges) after[from].push_back(to);
  LayerProfile chain{.name = profile.name, .layers = std::vector<ProfiledLayer>(places)};
  std::size_t next = 0;
  for (const std::size_t layer : topological_order<std::size_t>(count, successors_in(after)))
    place[layer] = next++ * places / count;
  for (std::size_t i = 1; i < places; ++i) chain.edges.emplace_back(i - 1, i);
  for (std::size_t layer = 0; layer < count; ++layer) {
    ProfiledLayer& joined = chain.layers[place[layer]];
    joined.forward += profile.layers[layer].forward;
    joined.backward += profile.layers[layer].backward;
    joined.parameters += profile.layers[layer].parameters;
    if (std::ranges::any_of(after[layer], [&](std::size_t reader) { return place[reader] != place[layer]; }))
      joined.activations += profile.layers[layer].activations;
  }
  profile = std::move(chain);
  return place;
}

BytesPerSecond slowest_step(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  BytesPerSecond slowest{std::numeric_limits<double>::max()};
  for (std::size_t i = 1; i < devices.size(); ++i)
    slowest = std::min(slowest, cluster.route(devices[i - 1], devices[i]).bandwidth);
  return slowest;
}

}  // namespace

ProfiledProblem profile_of(const Problem& problem, const Layers& layers, DeviceId device) {
  const Graph& graph = problem.graph();
  const auto is_forward = [&](OpId op) { return graph.phase(op) == Phase::forward; };
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  const auto add_edge = [&](OpId from, OpId to) {
    if (is_forward(from) && is_forward(to) && layers.of[from] != layers.of[to])
      edges.emplace_back(layers.of[from].index(), layers.of[to].index());
  };
  for (const OpId op : problem.ops()) {
    for (const TensorId tensor : graph.inputs(op)) add_edge(graph.producer(tensor), op);
    for (const OpId earlier : graph.after(op)) add_edge(earlier, op);
  }
  const std::vector<std::size_t> component = strong_components(layers.size(), edges);

  ProfiledProblem found{.profile = {.name = graph.name(), .layers = {}},
                        .member = IdMap<LayerId, std::size_t>(layers.size())};
  LayerProfile& profile = found.profile;
  std::vector<std::size_t> number(layers.size(), layers.size());  // of a component, in the order of first layers
  for (const LayerId layer : layers.ops.ids()) {
    std::size_t& at = number[component[layer.index()]];
    if (at == layers.size()) {
      at = profile.layers.size();
      profile.layers.push_back({.name = layers.names[layer.index()]});
    }
    found.member[layer] = at;
  }
  for (const OpId op : problem.ops()) {
    ProfiledLayer& layer = profile.layers[found.member[layers.of[op]]];
    (is_forward(op) ? layer.forward : layer.backward) +=
        problem.can_run(op, device) ? problem.duration(op, device) : problem.shortest(op);
    layer.parameters += graph.parameter_bytes(op);
    if (!is_forward(op)) continue;
    for (const TensorId tensor : graph.outputs(op))
      if (std::ranges::any_of(graph.consumers(tensor), [&](OpId reader) {
            return is_forward(reader) && found.member[layers.of[reader]] != found.member[layers.of[op]];
          }))
        layer.activations += graph.bytes(tensor);
  }
  for (auto& [from, to] : edges) {
    from = found.member[LayerId{from}];
    to = found.member[LayerId{to}];
  }
  std::erase_if(edges, [](const auto& edge) { return edge.first == edge.second; });
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  profile.edges = std::move(edges);
  return found;
}

std::vector<std::size_t> pipedream_stages(const Problem& problem, const Layers& layers,
                                          const std::vector<DeviceId>& devices, const PipedreamPlacerOptions& options) {
  auto [profile, member] = profile_of(problem, layers, devices.front());

  PipedreamOptions search{
      .straight = true, .fewer_machines = true, .most_states = kMostSplitStates, .stop = options.stop};
  if (options.activations) search.activation_compression = 1;
  if (options.memory)
    for (const DeviceId device : devices)
      if (const auto memory = problem.cluster().device(device).memory)
        search.memory = std::min(search.memory.value_or(*memory), *memory);
  const std::vector<PipelineLevel> levels{{devices.size(), slowest_step(problem.cluster(), devices)}};
  PipelinePartition partition;
  try {
    partition = pipedream_partition(profile, levels, search);
  } catch (const InputError& error) {
    if (error.findings().front().code != "too-many-states") throw;
    const std::vector<std::size_t> place = as_chain(profile);
    for (std::size_t& each : member) each = place[each];
    partition = pipedream_partition(profile, levels, search);
  }
  std::vector<std::size_t> stages(layers.size());
  for (std::size_t layer = 0; layer < stages.size(); ++layer) stages[layer] = partition.stage[member[LayerId{layer}]];
  return stages;
}

Schedule place_pipedream(const Problem& problem, const PipedreamPlacerOptions& options) {
  const std::vector<DeviceId> devices = worthy_devices(problem);
  const Layers layers = find_layers(problem.graph());
  const std::vector<std::size_t> stages = pipedream_stages(problem, layers, devices, options);
  LayerDevices placed(layers.size());
  for (const LayerId layer : placed.ids()) placed[layer] = devices[stages[layer.index()]];
  return {.placement = place_layers(problem, layers, placed, MemoryLedger{problem}).placement};
}

}  // namespace trainyard
