#include "trainyard/transform/training.hpp"

#include "trainyard/transform/expansion.hpp"

namespace trainyard {

Graph training_graph(const Model& model, const TrainingOptions& options, TrainingSummary* summary,
                     TrainingRecipe* recipe) {
  TrainingSummary totals;
  Graph graph = detail::Expansion{model, options}.run(totals, recipe);
  if (summary) *summary = totals;
  return graph;
}

}  // namespace trainyard
