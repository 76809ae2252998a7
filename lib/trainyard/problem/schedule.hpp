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

/// The rule by which devices and links choose among waiting tasks.
enum class Policy : std::uint8_t {
  fifo,      // ascending (ready time, id)
  priority,  // descending priority, then as fifo; never idles for a task that is not ready
  strict,    // each device follows a given order and waits for its next op; links fifo
};

namespace detail {
class RuleRunner;
}

/// A user-defined dispatch rule, made by own_rule() (simulate/model/run_events.hpp): how devices choose among waiting
/// ops, in place of a policy. Code that supports only the policies rejects it by name.
struct OwnRule {
  std::string name;
  std::shared_ptr<const detail::RuleRunner> runner;

  friend bool operator==(const OwnRule&, const OwnRule&) = default;
};

/// The placer's analytic schedule, if it has one; it is not the result of the simulator.
struct Plan {
  Nanoseconds makespan;
  IdMap<OpId, Nanoseconds> start;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Results of the search that found a schedule.
struct Search {
  std::uint64_t evaluations = 0;
  std::optional<Nanoseconds> lower_bound = {};  // proven by the search: no schedule of the problem is shorter

  friend bool operator==(const Search&, const Search&) = default;
};

/// Lower bounds on the step time of all plans that a search considered.
struct PlanBound {
  Nanoseconds simulated;  // step time as simulated by simulate()
  Nanoseconds estimated;  // step time as estimated by the search (plan/plan_search.hpp)

  friend bool operator==(const PlanBound&, const PlanBound&) = default;
};

/// A placement, and optionally priorities or an order.
struct Schedule {
  Placement placement = {};
  Policy policy = Policy::fifo;
  IdMap<OpId, double> priority = {};              // policy priority: higher is more urgent; empty: all 0
  IdMap<DeviceId, std::vector<OpId>> order = {};  // policy strict: every op once, on its device
  bool urgent_links = false;                      // policy strict: links by priority instead of fifo
  std::optional<OwnRule> rule = {};               // replaces the policy
  std::optional<Plan> plan = {};
  std::vector<Rewrite> rewrites = {};  // of the graph, applied first: all other fields refer to the rewritten graph
  std::string placer = {};             // name of the placer
  std::uint64_t seed = 0;
  std::optional<Search> search = {};
  std::optional<ParallelPlan> parallel = {};  // the parallel plan that the schedule follows, if any
  std::optional<PlanBound> plan_bound = {};
  std::vector<std::string> notes = {};  // the placer's messages to the user, such as why a device is idle

  /// Whether priorities apply: without a list of them, policy priority is fifo.
  bool by_priority() const { return policy == Policy::priority && !priority.empty(); }
  bool links_by_priority() const { return by_priority() || (policy == Policy::strict && urgent_links); }

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Throws InputError ("own-rule") if the schedule has a user-defined rule, because `what` supports only the policies.
void refuse_own_rule(const Schedule& schedule, std::string_view what);

/// Throws InputError ("own-rule") if the schedule has a rule that was not made by own_rule().
void check_rule(const Schedule& schedule);

/// Throws InputError unless the schedule is valid for the problem; if it has rewrites, the problem must be the
/// rewritten one (scheduled_problem() of rewrite/apply_rewrites.hpp). Every op must be on a device that can run it, and
/// colocation groups on one device. Priorities must be finite. Strict orders must be complete and free of deadlock with
/// the graph (the message names the cycle). A user-defined rule must be one that check_rule() accepts.
void check_schedule(const Problem& problem, const Schedule& schedule);

/// The cheap part of check_schedule(). Throws InputError ("size") unless the placement has one entry per op, the
/// priorities too if links use them, and a strict order one per device; and like check_rule().
void check_sizes(const Problem& problem, const Schedule& schedule);

/// Throws InputError unless the placement has each op of the problem ("size") on one of its devices ("not-placed",
/// "unknown-device"). Whether the device can run the op is not checked.
void check_placement(const Problem& problem, const Placement& placement);

/// Throws InputError ("size") unless the timeline matches the problem's numbers of ops, devices and channels.
void check_sizes(const Problem& problem, const Timeline& timeline);
/// Checks placement and timeline; also throws like check_placement().
void check_sizes(const Problem& problem, const Placement& placement, const Timeline& timeline);

/// Throws InputError unless the timeline's transfers refer to the problem's tensors ("unknown-tensor") and devices
/// ("unknown-device").
void check_transfers(const Problem& problem, const Timeline& timeline);

}  // namespace trainyard
