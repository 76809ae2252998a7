#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/learn/parameters.hpp"
#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/placement_task.hpp"

namespace trainyard::learned {

/// One run of a policy: what it decided, one decision after the other, and the placement that follows from it.
struct Trial {
  virtual ~Trial() = default;

  /// Draws the next decision; without `random`, takes the most probable choice.
  std::uint32_t decide(const PlacementTask& task, std::vector<double> p, Random* random) {
    const auto action = static_cast<std::uint32_t>(random ? learn::draw(p, *random) : learn::most_probable(p));
    note(task, std::move(p), action);
    return action;
  }
  /// The next decision. Passes the task's checkpoint.
  void note(const PlacementTask& task, std::vector<double> p, std::uint32_t action) {
    task.checkpoint();
    actions.push_back(action);
    probabilities.push_back(std::move(p));
  }

  std::vector<std::uint32_t> actions;
  std::vector<std::vector<double>> probabilities;  // of each decision, over its choices
  Devices devices;  // that follow from it; where each decision moves any group, the best that it passed
  std::vector<std::uint32_t> order;  // the group that each decision places; empty: decisions are of another kind
  /// Costs, where the policy saw them, of the placements before the first decision and after each one, and how many
  /// others were simulated.
  std::vector<double> costs;
  std::size_t looks = 0;
};

/// A policy with parameters to be learned: from a task to a placement.
template <class Scalar>
class PolicyNetwork {
 public:
  virtual ~PolicyNetwork() = default;

  /// Draws each decision with `random`; null: takes the most probable one. `order` visits the groups in another order
  /// than the task's; empty: the task's. Decisions change `start`; empty: the task's. May run on several
  /// threads at once. Throws OutOfTime, as follow() does, where the task's `stop` says so.
  virtual std::unique_ptr<Trial> run(const PlacementTask& task, Random* random,
                                     std::span<const std::uint32_t> order = {},
                                     std::span<const std::uint32_t> start = {}) const = 0;
  /// True if decisions depend on the start.
  virtual bool improves_a_start() const { return false; }
  /// A run in which the actions are a teacher's, whose choices lead to these devices (empty: a heuristic's of the
  /// network's own); with `random`, what is done at each decision is drawn from the policy all the same, so that it
  /// learns what the teacher would do where the policy comes to. Null: it has no teacher.
  virtual std::unique_ptr<Trial> follow(const PlacementTask&, std::span<const std::uint32_t> /*devices*/,
                                        Random* /*random*/) const {
    return nullptr;
  }
  /// True if no weight depends on the number of devices.
  virtual bool fits_any_devices() const { return false; }
  /// Adds to `gradients` the derivative by the parameters of sum over the decisions of
  ///     -weight log p(action) - bonus entropy(p)
  virtual void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights,
                             double bonus, learn::Gradients<Scalar>& gradients) const = 0;

  learn::Parameters<Scalar> parameters;
};

}  // namespace trainyard::learned
