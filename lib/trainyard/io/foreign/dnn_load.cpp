#include "trainyard/io/foreign/dnn_load.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace trainyard {

LoadProblem workload_load_problem(const DnnWorkload& workload) {
  LoadParts parts{.kinds = {{.name = "gpu", .memory = workload.accelerator_memory}, {.name = "cpu", .pays = false}}};
  for (std::size_t i = 0; i < workload.accelerators; ++i) parts.devices.push_back(KindId{0});
  for (std::size_t i = 0; i < workload.cpus; ++i) parts.devices.push_back(KindId{1});
  std::map<std::int64_t, std::uint32_t> colors;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < workload.nodes.size(); ++i) {
    const DnnWorkload::Node& node = workload.nodes[i];
    std::uint32_t color = next;
    if (node.color) color = colors.try_emplace(*node.color, next).first->second;
    if (color == next) ++next;
    parts.ops.push_back({.name = node.name.empty() ? fmt::format("n{}", node.id) : node.name,
                         .backward = node.backward,
                         .color = color,
                         .size = node.size});
    parts.times.push_back(node.on_accelerator ? picoseconds_from_milliseconds(node.accelerator) : kNeverLoad);
    parts.times.push_back(picoseconds_from_milliseconds(node.cpu));
    parts.tensors.push_back({.producer = OpId{i}, .consumers = {}});
    parts.costs.push_back(picoseconds_from_milliseconds(node.cost));
    parts.costs.push_back(Picoseconds{0});
  }
  for (const auto& [from, to] : workload.edges) parts.tensors[from].consumers.emplace_back(to);
  return LoadProblem{std::move(parts)};
}

}  // namespace trainyard
