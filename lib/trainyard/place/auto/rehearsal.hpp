#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// How a member did on the first ops of a graph, and how long it would take for all of them.
struct Forecast {
  double seconds;       // infinite: it was not done on the first ops within their share of the time
  Outcome outcome;      // in steps: the best member's, twice as long, longer
  std::size_t ops = 0;  // for which it was asked last
};

/// The members' forecasts, in their order, where they would have so many seconds for the graph: each is asked for the
/// first 500 and the first 2,000 ops in topological order, on all devices, and those that are hardly behind for four
/// times as many, as long as a tenth of the seconds allows; after three tenths those that are not done say no more. A
/// member's time grows as n log n, that of a list scheduler: one that grows faster is not done with the first ops
/// within their share. Processor time, by as many seconds of the clock as one took. None for a member that had no
/// answer, or rewrote the graph, of which the first ops say nothing.
std::vector<std::optional<Forecast>> rehearse(const Problem& problem, std::span<const Placer* const> members,
                                              const PlaceOptions& options, double seconds);

}  // namespace trainyard
