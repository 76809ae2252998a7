#pragma once

#include <optional>

#include "arguments.hpp"
#include "trainyard/simulate/noise.hpp"

namespace trainyard::program {

/// --noise, --samples, --seed and --threads; nothing without --noise. Throws UsageError.
std::optional<NoiseOptions> noise_options(const Arguments& arguments);

/// simulate_noise(); what it refuses is wrong on the command line: throws UsageError.
NoiseResult noise_of(const Problem& problem, const Schedule& schedule, const NoiseOptions& options);

/// simulate_steps_noise(), in the same way.
NoiseResult noise_of(const StepTimes& steps, const NoiseOptions& options);

}  // namespace trainyard::program
