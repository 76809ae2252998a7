#include <algorithm>
#include <cassert>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trainyard/place/fastt/dpos_engine.hpp"
#include "trainyard/rewrite/op_spec.hpp"

// DposEngine::replace() and restore(), for OS-DPOS.
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

struct DposEngine::Piece {
  Piece(const Problem& whole, OpId op, const std::vector<OpSpec>& by)
      : problem(whole.with_graph(piece_graph(whole.graph(), whole.graph().inputs(op), by))), old(op) {}
  const Graph& graph() const { return problem.graph(); }

  const Problem problem;  // the ops that take the old one's place
  const OpId old;
  std::vector<Node> nodes = {};                 // in the engine, by op
  IdMap<TensorId, std::uint32_t> tensors = {};  // in the engine
};

void DposEngine::replace(OpId op, const std::vector<OpSpec>& by) {
  assert(problem_.group_ops(problem_.group(op)).size() == 1);
  const auto old = static_cast<Node>(op.index());
  remember(old);
  Piece piece{problem_, op, by};
  add_piece(piece, by.size());
  connect_piece(piece, by);
  // An op that ran after the old one must run after all its parts, so the old op stays as a join of no duration.
  const bool joins = !problem_.graph().before(op).empty();
  splice_order(piece, joins);
  if (!joins) return;
  reads_[old] = {0, 0};
  after_[old].begin = static_cast<std::uint32_t>(earlier_.size());
  earlier_.insert(earlier_.end(), piece.nodes.begin(), piece.nodes.end());
  after_[old].end = static_cast<std::uint32_t>(earlier_.size());
  for (std::uint32_t column = 0; column < columns_; ++column)
    if (Nanoseconds& time = durations_[old * columns_ + column]; time != Problem::kNever) time = Nanoseconds{0};
  set_longest(old);
}

void DposEngine::remember(Node old) {
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
}

void DposEngine::add_piece(Piece& piece, std::size_t count) {
  const Graph& whole = problem_.graph();
  const Graph& small = piece.graph();
  std::unordered_map<std::string_view, std::uint32_t> known;  // the engine's tensors by name
  for (const TensorId tensor : whole.inputs(piece.old)) known.emplace(whole.name(tensor), tensor.index());
  for (const TensorId tensor : whole.outputs(piece.old)) known.emplace(whole.name(tensor), tensor.index());
  piece.tensors.assign(small.tensor_count(), 0);
  for (const TensorId tensor : small.tensors())
    if (const auto at = known.find(small.name(tensor)); at != known.end()) piece.tensors[tensor] = at->second;

  std::vector<DeviceId> one_of(columns_);
  for (const DeviceId device : problem_.devices()) one_of[column_[device.index()]] = device;
  for (std::size_t i = 0; i < count; ++i) {
    const OpId made{i};
    MemoryLedger::Need need{piece.problem.resident_bytes(made), small.workspace_bytes(made)};
    const Node node = add_node(small.phase(made), {});
    for (const DeviceId device : one_of) {
      durations_.push_back(piece.problem.duration(made, device));
      able_.push_back(durations_.back() == Problem::kNever ? 0 : 1);
    }
    set_longest(node);
    for (const TensorId tensor : small.outputs(made)) {
      const auto at = known.find(small.name(tensor));
      const bool lasts = at != known.end() && outlasts_forward(TensorId{at->second});
      (lasts ? need.held : need.transient) += small.bytes(tensor);
      if (at == known.end()) {
        piece.tensors[tensor] = add_piece_tensor(piece, tensor, node);
        continue;
      }
      undo_.producers.emplace_back(at->second, producer_[at->second]);
      producer_[at->second] = node;
    }
    if (rules_.cumulative) need = {need.held + need.transient, Bytes{0}};
    need_[group_[node]] = need;
    piece.nodes.push_back(node);
  }
}

/// Whether a tensor of the problem is kept, or passed on from the forward pass to another.
bool DposEngine::outlasts_forward(TensorId tensor) const {
  const Graph& graph = problem_.graph();
  return graph.kept(tensor) || (graph.phase(graph.producer(tensor)) == Phase::forward &&
                                std::ranges::any_of(graph.consumers(tensor), [&](OpId reader) {
                                  return graph.phase(reader) != Phase::forward;
                                }));
}

std::uint32_t DposEngine::add_piece_tensor(const Piece& piece, TensorId tensor, Node producer) {
  const auto id = static_cast<std::uint32_t>(bytes_.size());
  const std::size_t rates = piece.problem.rate_count();
  for (std::size_t rate = 0; rate < rates; ++rate)
    byte_times_.push_back(piece.problem.byte_times()[tensor.index() * rates + rate].count);
  if (rates == 0) byte_times_.push_back(0);
  const Graph& graph = piece.graph();
  add_tensor(graph.bytes(tensor), graph.phase(graph.producer(tensor)) == Phase::forward, producer);
  return id;
}

void DposEngine::connect_piece(const Piece& piece, const std::vector<OpSpec>& by) {
  for (std::size_t i = 0; i < by.size(); ++i) {
    const Node node = piece.nodes[i];
    reads_[node].begin = static_cast<std::uint32_t>(inputs_.size());
    for (const TensorId tensor : piece.graph().inputs(OpId{i})) inputs_.push_back(piece.tensors[tensor]);
    reads_[node].end = static_cast<std::uint32_t>(inputs_.size());
    after_[node].begin = static_cast<std::uint32_t>(earlier_.size());
    if (!by[i].after.empty())
      for (const OpId earlier : problem_.graph().after(piece.old))
        earlier_.push_back(static_cast<Node>(earlier.index()));
    after_[node].end = static_cast<std::uint32_t>(earlier_.size());
  }
}

/// Puts the piece in the old op's place in the topological order, and the old op after it if it joins.
void DposEngine::splice_order(const Piece& piece, bool joins) {
  const auto old = static_cast<Node>(piece.old.index());
  std::vector<Node> order;
  order.reserve(order_.size() + piece.nodes.size());
  for (const Node node : order_) {
    if (node != old) {
      order.push_back(node);
      continue;
    }
    for (const OpId each : piece.graph().topological_order())
      if (each.index() < piece.nodes.size()) order.push_back(piece.nodes[each.index()]);
    if (joins) order.push_back(old);
  }
  order_ = std::move(order);
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
