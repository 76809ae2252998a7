#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

using Placement = IdMap<OpId, DeviceId>;
struct Timeline;

/// The rule by which a device, and a link, chooses among waiting tasks.
enum class Policy : std::uint8_t {
  fifo,      // by ascending (ready time, id)
  priority,  // by descending priority, then as fifo; never idles for a task that is not ready
  strict,    // each device in a given order, waiting for the next one; links fifo
};

namespace detail {
class RuleRunner;
}

/// A dispatch rule of the caller's own, made by own_rule() (simulate/model/run_events.hpp): how devices choose among
/// waiting ops, in place of a policy. What knows the policies alone refuses it by its name.
struct OwnRule {
  std::string name;
  std::shared_ptr<const detail::RuleRunner> runner;

  friend bool operator==(const OwnRule&, const OwnRule&) = default;
};

/// The placer's own analytic plan, where it has one: not what the simulator says.
struct Plan {
  Nanoseconds makespan;
  IdMap<OpId, Nanoseconds> start;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Facts that the search which found a schedule knows of it.
struct Search {
  std::uint64_t evaluations = 0;
  std::optional<Nanoseconds> lower_bound = {};  // proven by it: no schedule of the problem is shorter

  friend bool operator==(const Search&, const Search&) = default;
};

/// What none of the plans that a search looked at goes below.
struct PlanBound {
  Nanoseconds simulated;  // the step, as simulate() has it
  Nanoseconds estimated;  // the step that the search estimates (plan/plan_search.hpp)

  friend bool operator==(const PlanBound&, const PlanBound&) = default;
};

/// A placement, and optionally an order.
struct Schedule {
  Placement placement = {};
  Policy policy = Policy::fifo;
  IdMap<OpId, double> priority = {};              // policy priority: higher is more urgent; empty: all 0
  IdMap<DeviceId, std::vector<OpId>> order = {};  // policy strict: every op once, on its device
  bool urgent_links = false;                      // policy strict: links by priority, in place of fifo
  std::optional<OwnRule> rule = {};               // in place of the policy
  std::optional<Plan> plan = {};
  std::vector<Rewrite> rewrites = {};  // of the graph, applied first: all the above is about the graph after them
  std::string placer = {};             // who made it
  std::uint64_t seed = 0;
  std::optional<Search> search = {};
  std::optional<ParallelPlan> parallel = {};  // the plan that it follows, where it follows one
  std::optional<PlanBound> plan_bound = {};
  std::vector<std::string> notes = {};  // from the placer to who asked for it, such as why a device has nothing to do

  /// Whether priorities say anything: without a list of them, policy priority is fifo.
  bool by_priority() const { return policy == Policy::priority && !priority.empty(); }
  bool links_by_priority() const { return by_priority() || (policy == Policy::strict && urgent_links); }

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Throws InputError ("own-rule") where the schedule has a rule of the caller's own: `what` knows the policies alone.
void refuse_own_rule(const Schedule& schedule, std::string_view what);

/// Throws InputError ("own-rule") where the schedule has a rule that own_rule() did not make.
void check_rule(const Schedule& schedule);

/// Throws InputError unless the schedule is one for the problem as it is (rewritten where the schedule has rewrites:
/// scheduled_problem() of rewrite/apply_rewrites.hpp): every op placed on a device that can run it, colocation groups
/// on one device, priorities finite, strict orders complete and free of deadlock against the graph (the message names
/// the cycle), and an own rule one that runs.
void check_schedule(const Problem& problem, const Schedule& schedule);

/// The cheap part of check_schedule(): throws InputError ("size") unless the placement has as many ops as the
/// problem, priorities too or none, and a strict order as many devices; and as check_rule() does.
void check_sizes(const Problem& problem, const Schedule& schedule);

/// Throws InputError unless the placement has each of the problem's ops ("size") on one of its devices ("not-placed",
/// "unknown-device"), which need not be able to run it.
void check_placement(const Problem& problem, const Placement& placement);

/// Throws InputError ("size") unless the timeline has the problem's ops, devices and channels.
void check_sizes(const Problem& problem, const Timeline& timeline);
/// Both of placement and timeline: as check_placement() does, too.
void check_sizes(const Problem& problem, const Placement& placement, const Timeline& timeline);

/// Throws InputError unless the timeline's transfers are of the problem's tensors ("unknown-tensor"), from and to its
/// devices ("unknown-device").
void check_transfers(const Problem& problem, const Timeline& timeline);

}  // namespace trainyard
