#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// A member's result on the first ops of a graph, and its forecast time for the whole graph.
struct Forecast {
  double seconds;       // infinite if the first ops took longer than their share of the time
  Outcome outcome;      // in classes: as the best member's, at most twice as long, longer
  std::size_t ops = 0;  // of the part that it ran on last
};

/// Forecasts of the members, in their order, given so many seconds for the whole graph. Each member runs on the first
/// 500 and the first 2,000 ops in topological order, on all devices. Members within 5 % of the best go on to four times
/// as many ops, as long as a tenth of the seconds allows. After three tenths, members that still run are stopped and
/// keep their last forecast.
///
/// A member's time is taken to grow as n log n, as that of a list scheduler; one that grows faster does not finish the
/// first ops within their share. It is processor time, times the ratio of wall-clock to processor time in the run.
/// There is no forecast for a member that had no answer, or that rewrote the graph: its first ops say nothing then.
std::vector<std::optional<Forecast>> rehearse(const Problem& problem, std::span<const Placer* const> members,
                                              const PlaceOptions& options, double seconds);

}  // namespace trainyard
