#include "trainyard/simulate/engine/edited_problem.hpp"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <unordered_map>

namespace trainyard::detail {

EditedProblem::EditedProblem(const Problem& p)
    : DenseProblem(p), live_ops(ops), base_ops_(ops), base_tensors_(tensors), base_edges_(edges) {
  assert(!problem.runs_in_full());
  if (!renumbered) find_positions();
  base_op_at_ = op_at;
  base_position_ = position_of;
  base_sources_ = sources;
  base_horizon_ = horizon;
  base_zeros_ = zero_durations;
  base_pair_flags_ = pair_flags_;
  own_byte_time_.assign(problem.byte_times().begin(), problem.byte_times().end());
  point_to_rows();
}

void EditedProblem::point_to_rows() {
  ops = static_cast<std::uint32_t>(pending.size());
  tensors = static_cast<std::uint32_t>(tensor_at.size());
  edges = static_cast<std::uint32_t>(own_consumer_.size());
  point_to_own();
  byte_time = own_byte_time_.data();
}

void EditedProblem::find_around(const GraphEdit& edit) {
  const Graph& ids = problem.graph();
  movers_.clear();
  earlier_.clear();
  later_.clear();
  const auto note = [&](std::vector<OpId>& list, OpId op) {
    if (!replaced(edit, op) && std::ranges::find(list, op) == list.end()) list.push_back(op);
  };
  for (std::size_t i = 0; i < edit.count; ++i) {
    const OpId op{edit.first.index() + i};
    for (const TensorId tensor : ids.inputs(op)) note(movers_, ids.producer(tensor));
    for (const OpId each : ids.after(op)) {
      note(movers_, each);
      note(earlier_, each);
    }
    for (const OpId each : ids.before(op)) note(later_, each);
  }
}

/// Numbers the ops by id: the new ops are appended, and the movers after them.
void EditedProblem::number_ops(const GraphEdit& edit) {
  const std::size_t first = edit.first.index(), added = edit.by.size();
  live_ops = base_ops_ - edit.count + added;
  op_at.assign(base_ops_ + added + movers_.size(), OpId{0});
  position_of.assign(live_ops, {});
  position_now_ = base_position_;
  for (std::size_t i = 0; i < movers_.size(); ++i) position_now_[movers_[i]] = Position{base_ops_ + added + i};
  const auto number = [&](std::size_t id, Position at) {
    op_at[at] = OpId{id};
    position_of[OpId{id}] = at;
  };
  for (std::size_t id = 0; id < first; ++id) number(id, position_now_[OpId{id}]);
  for (std::size_t i = 0; i < added; ++i) number(first + i, Position{base_ops_ + i});
  for (std::size_t id = first + edit.count; id < base_ops_; ++id)
    number(id - edit.count + added, position_now_[OpId{id}]);
}

void EditedProblem::replace(const GraphEdit& edit, const Problem& piece) {
  const Graph& ids = problem.graph();
  const Graph& small = piece.graph();
  assert(live_ops == base_ops_ && small.op_count() == edit.by.size() + 1);
  find_around(edit);
  number_ops(edit);
  zero_added_ = false;

  std::unordered_map<std::string_view, TensorId> known;
  for (std::size_t i = 0; i < edit.count; ++i) {
    const OpId op{edit.first.index() + i};
    const auto note = [&](TensorId tensor) { known.emplace(ids.name(tensor), tensor); };
    for (const TensorId tensor : ids.inputs(op))
      if (!replaced(edit, ids.producer(tensor))) note(tensor);
    for (const TensorId tensor : ids.outputs(op))
      if (std::ranges::any_of(ids.consumers(tensor), [&](OpId reader) { return !replaced(edit, reader); }))
        note(tensor);
  }
  tensor_of_.assign(small.tensor_count(), {});
  std::size_t next = base_tensors_;
  for (const TensorId tensor : small.tensors()) {
    const auto at = known.find(small.name(tensor));
    tensor_of_[tensor] = at != known.end() ? at->second : TensorId{next};
    if (at != known.end()) continue;
    ++next;
    const auto times = piece.byte_times().subspan(tensor.index() * rates, rates);
    own_byte_time_.insert(own_byte_time_.end(), times.begin(), times.end());
  }

  for (const OpId mover : movers_) point_at(edit, mover);
  for (std::size_t i = 0; i < edit.by.size(); ++i) add_op(edit, piece, i);
  for (const OpId mover : movers_) move_op(edit, piece, mover);
  for (const OpId each : later_) {
    const auto old = std::ranges::count_if(ids.after(each), [&](OpId op) { return replaced(edit, op); });
    std::uint32_t& count = pending[position_now_[each]];
    old_pending_.emplace_back(position_now_[each], count);
    count += static_cast<std::uint32_t>(edit.ordered.size()) - static_cast<std::uint32_t>(old);
  }

  sources.clear();
  const auto add_sources = [&] {
    for (std::size_t i = 0; i < edit.by.size(); ++i)
      if (const Position at{base_ops_ + i}; pending[at] == 0) sources.push_back(at);
  };
  bool added = false;
  for (const Position source : base_sources_) {
    const OpId op = base_op_at_[source];
    if (!added && op >= edit.first) {
      add_sources();
      added = true;
    }
    if (!replaced(edit, op)) sources.push_back(position_now_[op]);
  }
  if (!added) add_sources();

  horizon = base_horizon_ + piece.horizon();
  zero_durations = base_zeros_ || zero_added_;
  if (zero_added_)  // its transfers become ready between others
    for (std::uint8_t& flags : pair_flags_) flags = static_cast<std::uint8_t>(flags & ~kClosed);
  point_to_rows();
}

/// Writes the mover's new position into the rows of the ops that stay.
void EditedProblem::point_at(const GraphEdit& edit, OpId mover) {
  const Graph& ids = problem.graph();
  const OpId from{base_position_[mover].index()}, to = row_entry(mover);
  const auto stays = [&](OpId op) { return !replaced(edit, op) && std::ranges::find(movers_, op) == movers_.end(); };
  const auto point = [&](std::vector<OpId>& row, std::uint32_t begin, std::uint32_t end, auto& old) {
    const auto at = std::find(row.begin() + begin, row.begin() + end, from);
    assert(at != row.begin() + end);
    old.emplace_back(static_cast<std::size_t>(at - row.begin()), *at);
    *at = to;
  };
  for (const TensorId tensor : ids.inputs(mover)) {
    const OpId producer = ids.producer(tensor);
    if (!stays(producer)) continue;
    const auto output = static_cast<std::uint32_t>(tensor.index() - (*ids.outputs(producer).begin()).index());
    const std::uint32_t at = own_first_output_[base_position_[producer].index()] + output;
    point(own_consumer_, own_first_consumer_[at], own_first_consumer_[at + 1], old_consumers_);
  }
  for (const OpId earlier : ids.after(mover)) {
    if (!stays(earlier)) continue;
    const std::size_t at = base_position_[earlier].index();
    point(own_before_, own_first_before_[at], own_first_before_[at + 1], old_before_);
  }
}

void EditedProblem::add_tensor(TensorId id) {
  tensor_at.push_back(id);
  slot_base.push_back(Slot{0});  // for recorded runs only, which this class does not support
  own_first_consumer_.push_back(static_cast<std::uint32_t>(own_consumer_.size()));
}

void EditedProblem::add_op(const GraphEdit& edit, const Problem& piece, std::size_t number) {
  const Graph& ids = problem.graph();
  const Graph& small = piece.graph();
  const OpId made{number};
  for (const TensorId tensor : small.outputs(made)) {
    const TensorId id = tensor_of_[tensor];
    for (const OpId reader : small.consumers(tensor)) own_consumer_.push_back(row_entry_of_new(reader.index()));
    if (id.index() < base_tensors_)
      for (const OpId reader : ids.consumers(id))
        if (!replaced(edit, reader)) own_consumer_.push_back(row_entry(reader));
    add_tensor(id);
  }
  own_first_output_.push_back(static_cast<std::uint32_t>(tensor_at.size()));
  const bool ordered = std::ranges::find(edit.ordered, number) != edit.ordered.end();
  if (graph.first_before != nullptr) {
    if (ordered)
      for (const OpId later : later_) own_before_.push_back(row_entry(later));
    own_first_before_.push_back(static_cast<std::uint32_t>(own_before_.size()));
  }
  pending.push_back(static_cast<std::uint32_t>(small.inputs(made).size() + (ordered ? earlier_.size() : 0)));
  const std::size_t row = own_duration_.size();
  own_duration_.resize(row + columns);
  for (const DeviceId device : problem.devices()) {
    const Nanoseconds time = piece.duration(made, device);
    own_duration_[row + column[device]] = time;
    zero_added_ = zero_added_ || time == Nanoseconds{0};
  }
}

void EditedProblem::move_op(const GraphEdit& edit, const Problem& piece, OpId op) {
  const Graph& ids = problem.graph();
  const Graph& small = piece.graph();
  const OpId rest{edit.by.size()};
  for (const TensorId tensor : ids.outputs(op)) {
    for (const OpId reader : ids.consumers(tensor))
      if (!replaced(edit, reader)) own_consumer_.push_back(row_entry(reader));
    for (const TensorId read : small.outputs(rest))
      if (tensor_of_[read] == tensor)
        for (const OpId reader : small.consumers(read)) own_consumer_.push_back(row_entry_of_new(reader.index()));
    add_tensor(tensor);
  }
  own_first_output_.push_back(static_cast<std::uint32_t>(tensor_at.size()));
  if (graph.first_before != nullptr) {
    for (const OpId later : ids.before(op))
      if (!replaced(edit, later)) own_before_.push_back(row_entry(later));
    if (std::ranges::find(earlier_, op) != earlier_.end())
      for (const std::size_t number : edit.ordered) own_before_.push_back(row_entry_of_new(number));
    own_first_before_.push_back(static_cast<std::uint32_t>(own_before_.size()));
  }
  const Position old = base_position_[op];
  pending.push_back(pending[old]);
  for (std::size_t i = 0; i < columns; ++i) own_duration_.push_back(own_duration_[old.index() * columns + i]);
}

void EditedProblem::restore() {
  for (const auto& [at, op] : old_consumers_) own_consumer_[at] = op;
  for (const auto& [at, op] : old_before_) own_before_[at] = op;
  for (const auto& [at, count] : old_pending_) pending[at] = count;
  old_consumers_.clear();
  old_before_.clear();
  old_pending_.clear();
  tensor_at.resize(base_tensors_);
  slot_base.resize(base_tensors_);
  own_first_output_.resize(base_ops_ + 1);
  own_first_consumer_.resize(base_tensors_ + 1);
  own_consumer_.resize(base_edges_);
  if (graph.first_before != nullptr) {
    own_first_before_.resize(base_ops_ + 1);
    own_before_.resize(own_first_before_.back());
  }
  pending.resize(base_ops_);
  own_duration_.resize(base_ops_ * columns);
  own_byte_time_.resize(base_tensors_ * rates);
  op_at = base_op_at_;
  position_of = base_position_;
  sources = base_sources_;
  pair_flags_ = base_pair_flags_;
  horizon = base_horizon_;
  zero_durations = base_zeros_;
  live_ops = base_ops_;
  point_to_rows();
}

}  // namespace trainyard::detail
