#include "trainyard/training/training.hpp"

#include "trainyard/model/check_model.hpp"
#include "trainyard/training/expansion.hpp"

namespace trainyard {

TrainingStep training_step(const Model& model, const TrainingOptions& options) {
  check_model(model);
  return detail::Expansion{model, options}.run();
}

}  // namespace trainyard
