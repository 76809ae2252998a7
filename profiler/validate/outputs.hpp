#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/backend.hpp"

namespace trainyard {

/// Compares the outputs of a first step on a schedule with those of the step on one device.
///
/// Devices of one class compute the same bits wherever an op runs: loss and all parameters must be equal. A CPU and a
/// GPU round differently. For a schedule on both, the loss must agree within 1 %, and each parameter's change by plain
/// gradient descent within 5 % of its largest change; other optimizers amplify gradients that are only rounding.
///
/// A rewritten step must also match the step before rewrites: the loss within a relative 1e-4, and each parameter's
/// change by plain gradient descent within 1e-3 of its largest change, over all parts and copies that ranks hold. Each
/// element must be in some part. This is skipped if a part of the batch has its own statistics (batch norm).
class OutputCheck {
 public:
  OutputCheck(Backend& backend, const Problem& problem, const Workload& workload);

  /// `run` has made its first step, with this loss. May prepare and run further schedules.
  bool agrees(const Schedule& schedule, const PreparedRun& run, double loss);

 private:
  struct Outcome {
    double loss = 0;
    std::uint64_t checksum = 0;
    std::vector<std::vector<float>> changes;  // by parameter
    std::vector<double> sizes;                // largest absolute value of each parameter
  };
  bool agrees_but_for_rounding(const Schedule& schedule, const std::string& device_class);
  static Outcome run(Backend& backend, const Problem& problem, const Schedule& schedule, const TrainingRecipe& recipe,
                     std::uint64_t seed, bool changes);
  Outcome run(const Schedule& schedule, const TrainingRecipe& recipe) const;
  bool agrees_with_whole(const std::string& device_class);
  /// First device of the class that can run every op.
  std::optional<DeviceId> able(const std::string& device_class) const;
  /// The class on which the step alone is predicted to be shortest: on a CPU some steps take minutes.
  const std::string& quickest(const std::set<std::string>& classes) const;
  const Outcome& alone(const std::string& device_class, bool plain);

  Backend& backend_;
  const Problem& problem_;
  const Workload& workload_;
  TrainingRecipe plain_;                                   // the recipe with gradient descent
  std::map<std::pair<std::string, bool>, Outcome> alone_;  // by device class, and whether of plain_
  std::map<std::string, bool> whole_;                      // by device class: agrees_with_whole()
};

}  // namespace trainyard
