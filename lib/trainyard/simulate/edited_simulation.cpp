#include "trainyard/simulate/edited_simulation.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/simulate/engine/commit_engine.hpp"
#include "trainyard/simulate/engine/edited_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard {

struct EditedSimulation::State {
  explicit State(const Problem& problem) : dense(problem), workspace(dense) {}

  detail::EditedProblem dense;
  detail::Workspace workspace;
  std::optional<Problem> piece;
  std::vector<TensorId> reads;
  Schedule schedule;  // only its placement is used
  bool edited = false;
};

namespace {

void check_edit(const Graph& graph, const GraphEdit& edit) {
  const std::size_t first = edit.first.index(), ops = graph.op_count();
  if (edit.first.is_none() || edit.count == 0)
    refuse("edit", "an edit replaces no ops of graph '" + graph.name() + "'",
           "give one or more of the ops from 0 to " + std::to_string(ops - 1));
  if (first >= ops || edit.count > ops - first)
    refuse("edit", "an edit replaces ops that graph '" + graph.name() + "' does not have",
           "give one or more of the ops from 0 to " + std::to_string(ops - 1));
  for (const std::size_t number : edit.ordered)
    if (number >= edit.by.size())
      refuse("edit", "an edit orders an op that it does not add", "`ordered` must hold indices into `by`");
  const auto is_old = [&](OpId op) { return op.index() - first < edit.count; };
  const auto makes = [&](std::string_view name) {
    return std::ranges::any_of(edit.by, [&](const OpSpec& op) {
      return std::ranges::find(op.outputs, name, &OutputSpec::name) != op.outputs.end();
    });
  };
  for (std::size_t i = first; i < first + edit.count; ++i)
    for (const TensorId tensor : graph.outputs(OpId{i})) {
      const auto readers = graph.consumers(tensor);
      const auto reader = std::ranges::find_if_not(readers, is_old);
      if (reader != readers.end() && !makes(graph.name(tensor)))
        refuse("missing-output",
               "no new op makes '" + std::string{graph.name(tensor)} + "', which '" + std::string{graph.name(*reader)} +
                   "' reads",
               "add it to the outputs of one of the new ops");
    }
}

}  // namespace

EditedSimulation::EditedSimulation(const Problem& problem) {
  if (problem.runs_in_full())
    refuse("events", "an edited simulation does not support fair channels, collectives or ops that copies slow down",
           "build the edited graph, and simulate() it");
  state_ = std::make_unique<State>(problem);
}
EditedSimulation::EditedSimulation(EditedSimulation&&) noexcept = default;
EditedSimulation& EditedSimulation::operator=(EditedSimulation&&) noexcept = default;
EditedSimulation::~EditedSimulation() = default;

void EditedSimulation::replace(const GraphEdit& edit) {
  const Problem& problem = state_->dense.problem;
  const Graph& graph = problem.graph();
  if (state_->edited) refuse("edit", "an edit has already been made", "call restore() before the next one");
  check_edit(graph, edit);
  auto& reads = state_->reads;
  reads.clear();
  for (std::size_t i = 0; i < edit.count; ++i)
    for (const TensorId tensor : graph.inputs(OpId{edit.first.index() + i})) {
      const std::size_t producer = graph.producer(tensor).index();
      const bool own = producer >= edit.first.index() && producer < edit.first.index() + edit.count;
      if (!own && std::ranges::find(reads, tensor) == reads.end()) reads.push_back(tensor);
    }
  Problem piece = problem.with_graph(piece_graph(graph, reads, edit.by));
  if (piece.horizon() > kLongestTime - problem.horizon())
    refuse("too-large", "the times of the graph with this edit can add up to more than 2^62 ns (146 years)",
           "check the units of the largest times and sizes");
  state_->dense.replace(edit, piece);
  state_->edited = true;
  state_->piece.emplace(std::move(piece));
  auto& ops = state_->workspace.walk.ops;
  if (ops.size() < state_->dense.ops) ops.resize(state_->dense.ops);
}

void EditedSimulation::restore() {
  if (std::exchange(state_->edited, false)) state_->dense.restore();
}

const Problem& EditedSimulation::piece() const {
  if (!state_->piece) refuse("edit", "there are no new ops, as nothing is replaced yet", "call replace() first");
  return *state_->piece;
}

std::size_t EditedSimulation::op_count() const { return state_->dense.live_ops; }

Nanoseconds EditedSimulation::makespan(const Placement& placement) {
  if (placement.size() != op_count())
    refuse("size",
           "the placement has " + std::to_string(placement.size()) + " ops, but the edited graph has " +
               std::to_string(op_count()),
           "give a placement for the edited graph");
  state_->schedule.placement = placement;
  return detail::run_commits(state_->dense, state_->schedule, nullptr, false, state_->workspace);
}

}  // namespace trainyard
