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

/// A machine that somebody may wish for.
struct WhatIf {
  std::string name;  // "gpu0 2x as fast"
  std::vector<MachineChange> changes = {};
};

/// The unchanged schedule on the changed machine.
struct WhatIfResult {
  WhatIf what_if;
  Nanoseconds makespan;  // may be longer than before: an order that was good may no longer be
  bool fits = true;
  std::optional<Nanoseconds> placed_again = {};  // what a placer makes of the changed machine, where it was asked
};

/// All devices of each kind that runs something, `factor` times as fast; each device that does, where a kind has
/// several; all links of one latency and bandwidth that carry something, and each such link; of a fabric its ports and
/// its network; and, where the timeline does not fit, more memory for each kind of device of which some is full. The
/// `kMostAlone` busiest of the devices and of the links are tried alone. Throws InputError ("size") for the timeline of
/// another problem.
inline constexpr std::size_t kMostAlone = 32;
std::vector<WhatIf> usual_what_ifs(const Problem& problem, const Timeline& timeline, double factor);

/// Simulates each, and sorts them: those that fit where the others do not, then shortest first; ties: in the order
/// given. `place_again`, where given, is asked what a placer makes of each machine.
/// Throws InputError as changed_machine() does.
std::vector<WhatIfResult> simulate_what_ifs(const Problem& problem, const Schedule& schedule,
                                            std::span<const WhatIf> what_ifs,
                                            const std::function<Nanoseconds(const ChangedMachine&)>& place_again = {});

/// "2x", "0.5x", "1.25x".
std::string factor_text(double factor);

}  // namespace trainyard
