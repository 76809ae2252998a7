#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rows.hpp"

namespace trainyard::bench {

/// Result for a row of a set: a predicted step, or the reason why there is none.
struct Outcome {
  const MeasuredRow* row = nullptr;
  std::string set;                       // "NeuSight, 1 GPU"
  std::string part = {};                 // part of the set that is also scored alone: "H100"; may be empty
  std::optional<double> predicted = {};  // seconds
  std::string why = {};                  // reason for no prediction
  std::string rests_on = {};             // if predicted by op costs on one GPU: source of most of their time
  std::optional<double> ideal = {};      // seconds without loss of scaling, from one GPU, if known

  /// predicted / measured - 1.
  double error() const { return *predicted / *row->seconds - 1; }
};

/// Errors of a set's predicted rows. `tau` and `regret` compare plans: means over the groups of at least two rows with
/// equal model, framework, GPUs, precision, batch and sequence.
struct Score {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0;  // of |error|
  double bias = 0;                       // mean error
  std::size_t groups = 0;                // number of such groups
  std::optional<double> tau, regret;     // Kendall's tau-b; measured step of the plan predicted best / best - 1
  std::optional<double> scaling;         // mean |(1 - ideal / predicted) - (1 - ideal / measured)|
};

/// The score of at least one outcome; all must have a prediction.
Score score(std::span<const Outcome> outcomes);

}  // namespace trainyard::bench
