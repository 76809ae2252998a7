#include "coarse.hpp"

#include "trainyard/core/error.hpp"
#include "usage.hpp"

namespace trainyard::program {

std::optional<CoarsenOptions> chosen_coarsening(const Arguments& arguments) {
  if (arguments.coarsen.empty()) return std::nullopt;
  try {
    return parse_coarsen(arguments.coarsen);
  } catch (const InputError& error) {
    throw UsageError(error, "--coarsen");
  }
}

Problem smaller_problem(const Problem& problem, const CoarsenOptions& how) {
  if (how.rule == CoarsenOptions::Rule::merge) return merged_problem(problem, how.target);
  return coarse_problem(problem, coarsen(problem, how));
}

}  // namespace trainyard::program
