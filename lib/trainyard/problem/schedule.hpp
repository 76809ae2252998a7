#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

using Placement = IdMap<OpId, DeviceId>;

/// How a device, and a link, chooses among waiting tasks.
enum class Policy : std::uint8_t {
  fifo,      // by ascending (ready time, id)
  priority,  // by descending priority, then as fifo; never idles for a task that is not ready
  strict,    // each device in a given order, waiting for the next one; links fifo
};

/// The placer's own analytic plan, where it has one: not what the simulator says.
struct Plan {
  Nanoseconds makespan;
  IdMap<OpId, Nanoseconds> start;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// What the search that found a schedule knows of it.
struct Search {
  std::uint64_t evaluations = 0;
  std::optional<Nanoseconds> lower_bound = {};  // proven by it: no schedule of the problem is shorter

  friend bool operator==(const Search&, const Search&) = default;
};

/// A placement, and optionally an order.
struct Schedule {
  Placement placement;
  Policy policy = Policy::fifo;
  IdMap<OpId, double> priority = {};              // policy priority: higher is more urgent; empty: all 0
  IdMap<DeviceId, std::vector<OpId>> order = {};  // policy strict: every op once, on its device
  std::optional<Plan> plan = {};
  std::vector<GraphSplit> splits = {};  // made first: all the above is of the graph with these ops split
  std::string placer = {};              // who made it
  std::uint64_t seed = 0;
  std::optional<Search> search = {};

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// What the schedule is of: the problem itself where it has the schedule's splits, or the schedule has none; else with
/// them made. Throws InputError as split_graph does, and where the problem has other splits ("other-splits").
Problem scheduled_problem(const Problem& problem, const Schedule& schedule);

/// Throws InputError unless the schedule is one for the problem (scheduled_problem of it): every op placed on a device
/// that can run it, colocation groups on one device, priorities finite, strict orders complete and free of deadlock
/// against the graph (the message names the cycle).
void check_schedule(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard
