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

/// Outputs of a first step on a schedule, compared with those of the step on one device.
///
/// Devices of one class compute the same bits wherever an op runs: loss and all parameters must be equal. A CPU and a
/// GPU round differently. Of a schedule on both, the loss must be within 1 %, and each parameter's change by plain
/// gradient descent within 5 % of the largest change in it (the optimizers' own rules make much of gradients that are
/// nothing but rounding).
///
/// A rewritten step besides: the loss must be that of the step before rewrites within 1e-4 of it, and so must each
/// parameter's change by plain gradient descent, in whatever parts and copies ranks have it, within 1e-3 of the largest
/// change in it; each element is in some part. Only where a part of the batch has statistics of its own (batch norm) is
/// that not asked.
class OutputCheck {
 public:
  OutputCheck(Backend& backend, const Problem& problem, const Workload& workload);

  /// `run` has made its first step, with that loss. May prepare and run schedules of its own.
  bool agrees(const Schedule& schedule, const PreparedRun& run, double loss);

 private:
  struct Outcome {
    double loss = 0;
    std::uint64_t checksum = 0;
    std::vector<std::vector<float>> changes;  // by parameter
    std::vector<double> sizes;                // of parameters: the largest number in each
  };
  bool agrees_but_for_rounding(const Schedule& schedule, const std::string& device_class);
  static Outcome run(Backend& backend, const Problem& problem, const Schedule& schedule, const TrainingRecipe& recipe,
                     std::uint64_t seed, bool changes);
  Outcome run(const Schedule& schedule, const TrainingRecipe& recipe) const;
  bool agrees_with_whole(const std::string& device_class);
  /// The first device of the class that can run every op.
  std::optional<DeviceId> able(const std::string& device_class) const;
  /// That of the classes on which the step alone is predicted to be shortest: on a CPU some take minutes.
  const std::string& quickest(const std::set<std::string>& classes) const;
  const Outcome& alone(const std::string& device_class, bool plain);

  Backend& backend_;
  const Problem& problem_;
  const Workload& workload_;
  TrainingRecipe plain_;                                   // the same by gradient descent
  std::map<std::pair<std::string, bool>, Outcome> alone_;  // by device class; of plain_ or of the workload
  std::map<std::string, bool> whole_;                      // by device class: agrees_with_whole()
};

}  // namespace trainyard
