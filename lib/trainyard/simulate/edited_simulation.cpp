#include "trainyard/simulate/edited_simulation.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
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
  Schedule schedule;  // its placement alone
};

EditedSimulation::EditedSimulation(const Problem& problem) : state_(std::make_unique<State>(problem)) {}
EditedSimulation::EditedSimulation(EditedSimulation&&) noexcept = default;
EditedSimulation& EditedSimulation::operator=(EditedSimulation&&) noexcept = default;
EditedSimulation::~EditedSimulation() = default;

void EditedSimulation::replace(const GraphEdit& edit) {
  const Problem& problem = state_->dense.problem;
  const Graph& graph = problem.graph();
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
    throw InputError({"too-large",
                      "the times of the graph with this edit can add up to more than 2^62 ns (146 years)",
                      "check the units of the largest times and sizes",
                      "",
                      {}});
  state_->dense.replace(edit, piece);
  state_->piece.emplace(std::move(piece));
  auto& ops = state_->workspace.walk.ops;
  if (ops.size() < state_->dense.ops) ops.resize(state_->dense.ops);
}

void EditedSimulation::restore() { state_->dense.restore(); }

const Problem& EditedSimulation::piece() const {
  assert(state_->piece);
  return *state_->piece;
}

std::size_t EditedSimulation::op_count() const { return state_->dense.live_ops; }

Nanoseconds EditedSimulation::makespan(const Placement& placement) {
  assert(placement.size() == op_count());
  state_->schedule.placement = placement;
  return detail::run_commits(state_->dense, state_->schedule, nullptr, false, state_->workspace);
}

}  // namespace trainyard
