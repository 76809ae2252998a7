#include "trainyard/place/simple/expert.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/place/kit/partition.hpp"

namespace trainyard {
namespace {

bool contains_word(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; }) != text.end();
}

bool is_recurrent(const Graph& graph, std::string_view name, const std::vector<OpId>& ops) {
  if (contains_word(name, "lstm") || contains_word(name, "gru") || contains_word(name, "rnn")) return true;
  bool sigmoid = false, tanh = false;
  for (const OpId op : ops) {
    const std::string& type = graph.type(op);
    if (type == "LSTM" || type == "GRU" || type == "RNN") return true;
    sigmoid |= type == "Sigmoid";
    tanh |= type == "Tanh";
  }
  return sigmoid && tanh;
}

/// The name without its number: "encoder" for "encoder3" and "encoder.3".
std::string_view without_number(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789._") + 1);
}

/// One device for each recurrent layer; nothing for a network without any.
std::optional<LayerDevices> by_recurrent_layers(const Problem& problem, const Layers& layers,
                                                const std::vector<DeviceId>& devices) {
  std::vector<LayerId> recurrent;
  for (const LayerId layer : layers.ops.ids())
    if (is_recurrent(problem.graph(), layers.names[layer.index()], layers.ops[layer])) recurrent.push_back(layer);
  if (recurrent.empty()) return std::nullopt;

  std::map<std::string_view, std::size_t> stack_height;
  std::size_t highest = 0;
  const auto stack = [&](LayerId layer) { return without_number(layers.names[layer.index()]); };
  for (const LayerId layer : recurrent) highest = std::max(highest, ++stack_height[stack(layer)]);

  LayerDevices placed(layers.size());
  std::map<std::string_view, std::size_t> next_in_stack;
  for (std::size_t i = 0; i < recurrent.size(); ++i) {
    const LayerId layer = recurrent[i];
    const std::size_t at = next_in_stack[stack(layer)]++;
    std::size_t chosen = i;
    if (recurrent.size() > devices.size())
      chosen = highest >= devices.size() ? at * devices.size() / stack_height[stack(layer)]
                                         : i * devices.size() / recurrent.size();
    placed[layer] = devices[chosen];
  }
  const DeviceId first = placed[recurrent.front()], last = placed[recurrent.back()];
  for (const LayerId layer : placed.ids())
    if (placed[layer].is_none())
      placed[layer] = layer < recurrent.front() || contains_word(layers.names[layer.index()], "embed") ? first : last;
  return placed;
}

/// A block that the network's author cut into branches ("mixed_5b/branch3x3").
struct Block {
  std::vector<LayerId> branches;                   // ascending
  std::vector<std::pair<LayerId, LayerId>> reads;  // (producer, reader): a later branch reads an earlier one

  /// Whether some two branches are independent: the longest chain of reads does not contain all branches.
  bool is_parallel() const {
    std::map<LayerId, std::size_t> chain;
    std::size_t longest = 0;
    for (const LayerId branch : branches) {
      std::size_t before = 0;
      for (const auto& [producer, reader] : reads)
        if (reader == branch) before = std::max(before, chain[producer]);
      longest = std::max(longest, chain[branch] = before + 1);
    }
    return longest < branches.size();
  }
};

std::vector<Block> parallel_blocks(const Graph& graph, const Layers& layers) {
  std::map<std::string_view, Block> blocks;
  const auto block_name = [&](LayerId layer) { return block_of(layers.names[layer.index()]); };
  const auto is_branch = [&](LayerId layer) { return block_name(layer).size() < layers.names[layer.index()].size(); };
  for (const LayerId layer : layers.ops.ids())
    if (is_branch(layer)) blocks[block_name(layer)].branches.push_back(layer);
  for (const TensorId tensor : graph.tensors()) {
    const OpId producer = graph.producer(tensor);
    const LayerId from = layers.of[producer];
    if (graph.phase(producer) != Phase::forward || !is_branch(from)) continue;
    for (const OpId reader : graph.consumers(tensor)) {
      const LayerId to = layers.of[reader];
      if (from < to && graph.phase(reader) == Phase::forward && is_branch(to) && block_name(to) == block_name(from))
        blocks[block_name(from)].reads.emplace_back(from, to);
    }
  }
  std::vector<Block> parallel;
  for (auto& [name, block] : blocks)
    if (block.is_parallel()) parallel.push_back(std::move(block));
  return parallel;
}

/// Spreads the branches of each block over devices; nothing if parallel branches are less than a third of the network.
std::optional<LayerDevices> by_branches(const Problem& problem, const Layers& layers,
                                        const std::vector<DeviceId>& devices) {
  const std::vector<Block> blocks = parallel_blocks(problem.graph(), layers);
  Nanoseconds in_branches{0}, in_all{0};
  for (const auto& ops : layers.ops) in_all += layer_time(problem, ops, devices.front());

  LayerDevices placed(layers.size(), devices.front());
  for (const Block& block : blocks) {
    std::vector<std::pair<Nanoseconds, LayerId>> longest_first;
    for (const LayerId branch : block.branches) {
      longest_first.emplace_back(layer_time(problem, layers.ops[branch], devices.front()), branch);
      in_branches += longest_first.back().first;
    }
    sort_by_descending(longest_first, [](const auto& entry) { return entry.first; });
    std::vector<Nanoseconds> loads(devices.size());
    for (const auto& [time, branch] : longest_first) {
      const auto at = static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
      loads[at] += layer_time(problem, layers.ops[branch], devices[at]);
      placed[branch] = devices[at];
    }
  }
  return !blocks.empty() && in_branches.count >= in_all.count / 3 ? std::optional{std::move(placed)} : std::nullopt;
}

/// Contiguous runs of layers over the devices in order.
LayerDevices by_runs(const Problem& problem, const Layers& layers, const std::vector<DeviceId>& devices,
                     const MemoryLedger& memory) {
  // A group's bytes count in the layer of its first op, where the group will be.
  IdMap<LayerId, MemoryLedger::Need> needs(layers.size());
  for (const GroupId group : problem.groups()) {
    const OpId first = problem.group_ops(group).front();
    needs[layers.of[first]] += memory.need(group);
  }
  std::vector<PartitionBin> bins;
  for (const DeviceId device : devices) {
    PartitionBin bin{.capacity = problem.cluster().device(device).memory};
    for (const LayerId layer : layers.ops.ids()) bin.times.push_back(layer_time(problem, layers.ops[layer], device));
    bins.push_back(std::move(bin));
  }
  std::vector<PartitionItem> items;
  for (const auto& need : needs) items.push_back({need.held, need.transient});
  const std::vector<std::size_t> run = partition_chain(items, bins);
  LayerDevices placed(layers.size());
  for (const LayerId layer : placed.ids()) placed[layer] = devices[run[layer.index()]];
  return placed;
}

}  // namespace

Schedule place_expert(const Problem& problem) {
  const Layers layers = find_layers(problem.graph());
  const std::vector<DeviceId> devices = worthy_devices(problem);
  const MemoryLedger memory{problem};

  auto by_hand = by_recurrent_layers(problem, layers, devices);
  if (!by_hand) by_hand = by_branches(problem, layers, devices);
  const auto runs = [&] { return place_layers(problem, layers, by_runs(problem, layers, devices, memory), memory); };
  if (!by_hand) return {.placement = runs().placement};
  LayerPlacement draft = place_layers(problem, layers, *by_hand, memory);
  if (draft.excess > Bytes{0})
    if (LayerPlacement other = runs(); other.excess < draft.excess) draft = std::move(other);
  return {.placement = std::move(draft.placement)};
}

}  // namespace trainyard
