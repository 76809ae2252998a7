#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rows.hpp"

namespace trainyard::bench {

/// What a row of a set comes to: a predicted step, or why there is none.
struct Outcome {
  const MeasuredRow* row = nullptr;
  std::string set;                       // "NeuSight, 1 GPU"
  std::string part = {};                 // of the set, which is scored apart too: "H100"; may be empty
  std::optional<double> predicted = {};  // seconds
  std::string why = {};                  // not expressible
  std::string rests_on = {};             // of one GPU by op costs: the source of most of their time
  std::optional<double> ideal = {};      // the step without any loss of scaling, where it is known: one GPU's

  /// predicted / measured - 1.
  double error() const { return *predicted / *row->seconds - 1; }
};

/// Errors of a set's rows that have a prediction. Plans are compared where model, framework, GPUs, precision, batch and
/// sequence are equal: the mean over such groups of at least two rows.
struct Score {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0;  // of |error|
  double bias = 0;                       // mean error
  std::size_t groups = 0;
  std::optional<double> tau, regret;  // Kendall's tau-b; measured step of the plan predicted best / best - 1
  std::optional<double> scaling;      // mean |(1 - ideal / predicted) - (1 - ideal / measured)|
};

/// The score of outcomes with a prediction, at least one.
Score score(std::span<const Outcome> outcomes);

}  // namespace trainyard::bench
