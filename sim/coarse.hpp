#pragma once

#include <optional>

#include "arguments.hpp"
#include "trainyard/place/coarse.hpp"

namespace trainyard::program {

/// --coarsen; none where it is not given. Throws UsageError.
std::optional<CoarsenOptions> chosen_coarsening(const Arguments& arguments);

/// The problem that a placer sees under --coarsen.
Problem smaller_problem(const Problem& problem, const CoarsenOptions& how);

}  // namespace trainyard::program
