#include "trainyard/training/training.hpp"

#include "trainyard/training/expansion.hpp"

namespace trainyard {

TrainingStep training_step(const Model& model, const TrainingOptions& options) {
  return detail::Expansion{model, options}.run();
}

}  // namespace trainyard
