#pragma once

#include <cstdint>

namespace trainyard {

/// Provenance of a predicted time.
///
///     given        stated by the graph or its author
///     measured     this op, or one with its signature, was timed on this kind of device
///     interpolated from a fit, within the range of its points
///     transferred  from a fit beyond the range of its points, or from another pair of devices of the same kinds
///     estimated    from data sheets and general efficiencies, or efficiencies fitted to other ops of the type
enum class Evidence : std::uint8_t { given, measured, interpolated, transferred, estimated };

inline constexpr int kEvidences = 5;

inline const char* name_of(Evidence evidence) {
  constexpr const char* names[kEvidences] = {"given", "measured", "interpolated", "transferred", "estimated"};
  return names[static_cast<int>(evidence)];
}

}  // namespace trainyard
