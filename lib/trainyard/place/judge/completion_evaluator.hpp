#pragma once

#include <compare>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/models.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

/// The sum of the models' completion times in simulation, bytes beyond the capacities first.
struct CompletionOutcome {
  Bytes excess;
  Nanoseconds total;

  friend auto operator<=>(const CompletionOutcome&, const CompletionOutcome&) = default;
};

/// Evaluator by the models' completion times; allocates nothing after the first schedule. One per thread.
class CompletionEvaluator {
 public:
  CompletionEvaluator(const Problem& problem, const Models& models) : models_(models), simulation_(problem) {}

  const Problem& problem() const { return simulation_.problem(); }
  CompletionOutcome outcome(const Schedule& schedule);
  // --- of the last schedule ---
  const IdMap<ModelId, Nanoseconds>& ends() const { return ends_; }
  /// All ops by their starts.
  std::vector<OpId> by_start() const;

 private:
  const Models& models_;
  Simulation simulation_;
  IdMap<ModelId, Nanoseconds> ends_;
};

/// The outcome of one schedule.
CompletionOutcome completion_outcome(const Problem& problem, const Models& models, const Schedule& schedule);

}  // namespace trainyard
