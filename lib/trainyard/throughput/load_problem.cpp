#include "trainyard/throughput/load_problem.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/graph/topological_order.hpp"

namespace trainyard {
namespace {

constexpr double kLargestTotal = 0x1p60;

/// Drops tensors without other consumers, repeated consumers, and costs on kinds that do not pay.
void tidy_tensors(LoadParts& parts) {
  const std::size_t kinds = parts.kinds.size();
  std::vector<LoadTensor> tensors;
  std::vector<Picoseconds> costs;
  for (std::size_t i = 0; i < parts.tensors.size(); ++i) {
    LoadTensor& tensor = parts.tensors[i];
    std::erase(tensor.consumers, tensor.producer);
    std::ranges::sort(tensor.consumers);
    tensor.consumers.erase(std::unique(tensor.consumers.begin(), tensor.consumers.end()), tensor.consumers.end());
    if (tensor.consumers.empty()) continue;
    for (std::size_t k = 0; k < kinds; ++k)
      costs.push_back(parts.kinds[k].pays ? parts.costs[i * kinds + k] : Picoseconds{0});
    tensors.push_back(std::move(tensor));
  }
  parts.tensors = std::move(tensors);
  parts.costs = std::move(costs);
}

void check_parts(const LoadParts& parts) {
  const std::size_t kinds = parts.kinds.size();
  if (parts.times.size() != parts.ops.size() * kinds || parts.costs.size() != parts.tensors.size() * kinds)
    refuse("size",
           "there are " + std::to_string(parts.times.size()) + " times for " + std::to_string(parts.ops.size()) +
               " ops, and " + std::to_string(parts.costs.size()) + " costs for " +
               std::to_string(parts.tensors.size()) + " tensors, with " + std::to_string(kinds) + " kinds of devices",
           "give one time for each op and kind, and one cost for each tensor and kind");
  for (const KindId kind : parts.devices)
    if (kind.index() >= kinds)
      refuse("size", "a device has a kind number that does not exist", "number the kinds from 0");
}

void check_total(const LoadParts& parts) {
  double total = 0;
  for (const Picoseconds time : parts.times) total += static_cast<double>(std::max<std::int64_t>(time.count, 0));
  const double devices = static_cast<double>(parts.devices.size());
  for (const Picoseconds cost : parts.costs) total += devices * static_cast<double>(cost.count);
  if (total > kLargestTotal)
    refuse("too-large", "the sum of all times is more than thirteen days: loads would overflow",
           "give times in a smaller unit");
}

}  // namespace

LoadProblem::LoadProblem(LoadParts parts) : parts_(std::move(parts)) {
  check_parts(parts_);
  tidy_tensors(parts_);
  check_total(parts_);

  std::vector<std::pair<OpId, TensorId>> outputs, inputs;
  for (const TensorId id : tensors()) {
    outputs.emplace_back(tensor(id).producer, id);
    for (const OpId reader : tensor(id).consumers) inputs.emplace_back(reader, id);
  }
  outputs_ = {op_count(), outputs};
  inputs_ = {op_count(), inputs};

  std::vector<std::pair<OpId, OpId>> members;
  std::size_t colors = 0;
  for (const OpId id : ops()) {
    members.emplace_back(OpId{op(id).color}, id);
    colors = std::max<std::size_t>(colors, op(id).color + std::size_t{1});
    training_ = training_ || op(id).backward;
  }
  color_ops_ = {colors, members};
  color_times_.assign(colors * kind_count() * 2, Picoseconds{0});
  color_sizes_.assign(colors, Bytes{0});
  for (const OpId id : ops()) {
    color_sizes_[op(id).color] += op(id).size;
    for (const KindId kind : kinds()) {
      Picoseconds* both = color_times_.data() + (op(id).color * kind_count() + kind.index()) * 2;
      if (time(id, kind) == kNeverLoad || both[0] == kNeverLoad)
        both[0] = both[1] = kNeverLoad;
      else
        both[op(id).backward ? 1 : 0] += time(id, kind);
    }
  }
  std::vector<std::pair<KindId, DeviceId>> devices_by_kind;
  for (const DeviceId device : devices()) devices_by_kind.emplace_back(kind_of(device), device);
  kind_devices_ = {kind_count(), devices_by_kind};

  order_ = trainyard::topological_order<OpId>(op_count(), [&](OpId id, const auto& visit) {
    for (const TensorId out : this->outputs(id))
      for (const OpId reader : tensor(out).consumers) visit(reader);
  });
  if (order_.size() != op_count()) {
    IdMap<OpId, bool> ordered(op_count(), false);
    for (const OpId id : order_) ordered[id] = true;
    OpId stuck{0};
    while (ordered[stuck]) stuck = OpId{stuck.index() + 1};
    refuse("cycle", "the graph has a cycle: '" + op(stuck).name + "' waits for itself",
           "remove the cycle: an op cannot read what depends on it");
  }
}

std::vector<std::uint32_t> LoadProblem::reading_colors(TensorId tensor) const {
  std::set<std::uint32_t> readers;
  for (const OpId reader : this->tensor(tensor).consumers) readers.insert(op(reader).color);
  readers.erase(op(this->tensor(tensor).producer).color);
  return {readers.begin(), readers.end()};
}

Picoseconds picoseconds_from_milliseconds(double milliseconds) {
  return Picoseconds{static_cast<std::int64_t>(std::floor(milliseconds * 1e9 + 0.5))};
}

}  // namespace trainyard
