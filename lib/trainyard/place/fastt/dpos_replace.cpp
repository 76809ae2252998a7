#include <algorithm>
#include <cassert>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trainyard/place/fastt/dpos_engine.hpp"
#include "trainyard/rewrite/op_spec.hpp"

// The changes that OS-DPOS makes in a DposEngine.
namespace trainyard::detail {
DposEngine::Node DposEngine::add_node(Phase phase, const MemoryLedger::Need& need) {
  const auto node = static_cast<Node>(phase_.size());
  phase_.push_back(phase);
  group_.push_back(static_cast<std::uint32_t>(need_.size()));
  need_.push_back(need);
  reads_.push_back({0, 0});
  after_.push_back({0, 0});
  return node;
}

void DposEngine::replace(OpId op, const std::vector<OpSpec>& by) {
  const Graph& graph = problem_.graph();
  const auto old = static_cast<Node>(op.index());
  assert(problem_.group_ops(problem_.group(op)).size() == 1);
  undo_.nodes = phase_.size();
  undo_.tensors = bytes_.size();
  undo_.inputs = inputs_.size();
  undo_.earlier = earlier_.size();
  undo_.order = order_;
  undo_.producers.clear();
  undo_.node = old;
  undo_.reads = reads_[old];
  undo_.after = after_[old];
  const auto row = durations_.begin() + static_cast<std::ptrdiff_t>(old * columns_);
  undo_.durations.assign(row, row + columns_);

  const Problem piece = problem_.with_graph(piece_graph(graph, graph.inputs(op), by));
  const Graph& small = piece.graph();
  std::unordered_map<std::string_view, std::uint32_t> known;  // tensors by name, of this engine
  for (const TensorId tensor : graph.inputs(op)) known.emplace(graph.name(tensor), tensor.index());
  for (const TensorId tensor : graph.outputs(op)) known.emplace(graph.name(tensor), tensor.index());

  std::vector<DeviceId> one_of(columns_);
  for (const DeviceId device : problem_.devices()) one_of[column_[device.index()]] = device;
  std::vector<Node> added;
  IdMap<TensorId, std::uint32_t> tensor_of(small.tensor_count());
  for (const TensorId tensor : small.tensors())
    if (const auto at = known.find(small.name(tensor)); at != known.end()) tensor_of[tensor] = at->second;
  for (std::size_t i = 0; i < by.size(); ++i) {
    const OpId made{i};
    MemoryLedger::Need need{piece.resident_bytes(made), small.workspace_bytes(made)};
    const Node node = add_node(small.phase(made), {});
    for (const DeviceId device : one_of) {
      durations_.push_back(piece.duration(made, device));
      able_.push_back(durations_.back() == Problem::kNever ? 0 : 1);
    }
    set_longest(node);
    for (const TensorId tensor : small.outputs(made)) {
      const auto at = known.find(small.name(tensor));
      const bool lasts = at != known.end() && [&] {
        const TensorId whole{at->second};
        const auto readers = graph.consumers(whole);
        return graph.kept(whole) ||
               (graph.phase(op) == Phase::forward &&
                std::ranges::any_of(readers, [&](OpId reader) { return graph.phase(reader) != Phase::forward; }));
      }();
      (lasts ? need.held : need.transient) += small.bytes(tensor);
      if (at != known.end()) {
        undo_.producers.emplace_back(at->second, producer_[at->second]);
        producer_[at->second] = node;
        continue;
      }
      tensor_of[tensor] = static_cast<std::uint32_t>(bytes_.size());
      for (std::size_t rate = 0; rate < piece.rate_count(); ++rate)
        byte_times_.push_back(piece.byte_times()[tensor.index() * piece.rate_count() + rate].count);
      if (piece.rate_count() == 0) byte_times_.push_back(0);
      add_tensor(small.bytes(tensor), small.phase(made) == Phase::forward, node);
    }
    if (rules_.cumulative) need = {need.held + need.transient, Bytes{0}};
    need_[group_[node]] = need;
    added.push_back(node);
  }
  // An op that ran after the old one runs after all its parts: the old one stays as a join of no time.
  const bool joins = !graph.before(op).empty();
  for (std::size_t i = 0; i < by.size(); ++i) {
    const Node node = added[i];
    reads_[node].begin = static_cast<std::uint32_t>(inputs_.size());
    for (const TensorId tensor : small.inputs(OpId{i})) inputs_.push_back(tensor_of[tensor]);
    reads_[node].end = static_cast<std::uint32_t>(inputs_.size());
    after_[node].begin = static_cast<std::uint32_t>(earlier_.size());
    if (!by[i].after.empty())
      for (const OpId earlier : graph.after(op)) earlier_.push_back(static_cast<Node>(earlier.index()));
    after_[node].end = static_cast<std::uint32_t>(earlier_.size());
  }
  std::vector<Node> order;
  order.reserve(order_.size() + added.size());
  for (const Node node : order_) {
    if (node != old) {
      order.push_back(node);
      continue;
    }
    for (const OpId each : small.topological_order())
      if (each.index() < added.size()) order.push_back(added[each.index()]);
    if (joins) order.push_back(old);
  }
  order_ = std::move(order);
  if (!joins) return;
  reads_[old] = {0, 0};
  after_[old].begin = static_cast<std::uint32_t>(earlier_.size());
  earlier_.insert(earlier_.end(), added.begin(), added.end());
  after_[old].end = static_cast<std::uint32_t>(earlier_.size());
  for (std::uint32_t column = 0; column < columns_; ++column)
    if (Nanoseconds& time = durations_[old * columns_ + column]; time != Problem::kNever) time = Nanoseconds{0};
  set_longest(old);
}

void DposEngine::restore() {
  for (const auto& [tensor, producer] : undo_.producers) producer_[tensor] = producer;
  phase_.resize(undo_.nodes);
  group_.resize(undo_.nodes);
  reads_.resize(undo_.nodes);
  after_.resize(undo_.nodes);
  longest_.resize(undo_.nodes);
  shortest_.resize(undo_.nodes);
  const std::size_t groups = need_.size() - (durations_.size() / columns_ - undo_.nodes);
  durations_.resize(undo_.nodes * columns_);
  need_.resize(groups);
  able_.resize(groups * columns_);
  producer_.resize(undo_.tensors);
  bytes_.resize(undo_.tensors);
  crossing_.resize(undo_.tensors);
  forward_.resize(undo_.tensors);
  byte_times_.resize(undo_.tensors * rates_);
  inputs_.resize(undo_.inputs);
  earlier_.resize(undo_.earlier);
  order_.swap(undo_.order);
  reads_[undo_.node] = undo_.reads;
  after_[undo_.node] = undo_.after;
  std::ranges::copy(undo_.durations, durations_.begin() + static_cast<std::ptrdiff_t>(undo_.node * columns_));
  set_longest(undo_.node);
}

}  // namespace trainyard::detail
