#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/machine_change.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// A hypothetical machine: changes to the problem's cluster.
struct WhatIf {
  std::string name;  // "gpu0 2x as fast"
  std::vector<MachineChange> changes = {};
};

/// Result of the unchanged schedule on the changed machine.
struct WhatIfResult {
  WhatIf what_if;
  Nanoseconds makespan;  // may be longer than before: the order was chosen for the old machine
  bool fits = true;
  std::optional<Nanoseconds> placed_again = {};  // result of `place_again` on the changed machine, if it was given
};

/// The usual hypothetical machines, each with one change:
///   - the busy devices of a kind, if it has several, are `factor` times as fast;
///   - a busy device alone, for the `kMostAlone` busiest, is `factor` times as fast;
///   - the links in use of one bandwidth and latency, if several, and a link alone, for the `kMostAlone` busiest; in a
///     fabric instead the ports, and the network between hosts;
///   - if the timeline does not fit: the devices of a kind of which one is out of memory have `factor` times as much.
/// Throws InputError ("size") for the timeline of another problem.
inline constexpr std::size_t kMostAlone = 32;
std::vector<WhatIf> usual_what_ifs(const Problem& problem, const Timeline& timeline, double factor);

/// Simulates the schedule on each machine. Results that fit in memory come first, then the shortest makespan; ties keep
/// the given order. `place_again`, if given, returns the makespan of a new placement for each machine. Throws
/// InputError as changed_machine() does.
std::vector<WhatIfResult> simulate_what_ifs(const Problem& problem, const Schedule& schedule,
                                            std::span<const WhatIf> what_ifs,
                                            const std::function<Nanoseconds(const ChangedMachine&)>& place_again = {});

/// "2x", "0.5x", "1.25x".
std::string factor_text(double factor);

}  // namespace trainyard
