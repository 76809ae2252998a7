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

/// Simulated cost of a schedule: first excess (bytes beyond the capacities), then the sum of the models' completion
/// times.
struct CompletionOutcome {
  Bytes excess;
  Nanoseconds total;

  friend auto operator<=>(const CompletionOutcome&, const CompletionOutcome&) = default;
};

/// Evaluator for the models' completion times; allocates nothing after the first schedule. One per thread.
class CompletionEvaluator {
 public:
  CompletionEvaluator(const Problem& problem, const Models& models) : models_(models), simulation_(problem) {}

  const Problem& problem() const { return simulation_.problem(); }
  CompletionOutcome outcome(const Schedule& schedule);
  // --- Results of the last schedule ---
  const IdMap<ModelId, Nanoseconds>& ends() const { return ends_; }
  /// All ops by ascending start.
  std::vector<OpId> by_start() const;

 private:
  const Models& models_;
  Simulation simulation_;
  IdMap<ModelId, Nanoseconds> ends_;
};

/// The outcome of one schedule, with an evaluator of its own.
CompletionOutcome completion_outcome(const Problem& problem, const Models& models, const Schedule& schedule);

}  // namespace trainyard
