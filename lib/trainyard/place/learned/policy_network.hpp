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

/// One run of a policy: its decisions in order, and the resulting placement.
struct Trial {
  virtual ~Trial() = default;

  /// Draws the next decision, or takes the most probable choice if `random` is null.
  std::uint32_t decide(const PlacementTask& task, std::vector<double> p, Random* random) {
    const auto action = static_cast<std::uint32_t>(random ? learn::draw(p, *random) : learn::most_probable(p));
    note(task, std::move(p), action);
    return action;
  }
  /// Records the next decision. Passes the task's checkpoint.
  void note(const PlacementTask& task, std::vector<double> p, std::uint32_t action) {
    task.checkpoint();
    actions.push_back(action);
    probabilities.push_back(std::move(p));
  }

  std::vector<std::uint32_t> actions;
  std::vector<std::vector<double>> probabilities;  // of each decision, over its choices
  Devices devices;  // resulting devices; if each decision may move any group, those of the best placement passed
  std::vector<std::uint32_t> order;  // group that each decision places; empty for decisions of another kind
  /// Costs of the placements before the first decision and after each one, if the policy saw them; and the number of
  /// other placements that were simulated.
  std::vector<double> costs;
  std::size_t looks = 0;
};

/// A policy with parameters to be learned, from a task to a placement.
template <class Scalar>
class PolicyNetwork {
 public:
  virtual ~PolicyNetwork() = default;

  /// Runs the policy once. Each decision is drawn with `random`; null: the most probable choice is taken. `order` is
  /// the order in which the groups are visited; empty: the task's. Decisions change the placement `start`; empty: the
  /// task's. May run on several threads at once. Throws OutOfTime, as follow() does, once the task's `stop` returns
  /// true.
  virtual std::unique_ptr<Trial> run(const PlacementTask& task, Random* random,
                                     std::span<const std::uint32_t> order = {},
                                     std::span<const std::uint32_t> start = {}) const = 0;
  /// Whether decisions depend on the start.
  virtual bool improves_a_start() const { return false; }
  /// A run whose recorded actions are those of a teacher, whose choices lead to these devices (empty: those of the
  /// network's own heuristic). With `random`, the choices that are carried out are drawn from the policy, so that it
  /// learns what the teacher would do in the states that the policy reaches. Null if the network has no teacher.
  virtual std::unique_ptr<Trial> follow(const PlacementTask&, std::span<const std::uint32_t> /*devices*/,
                                        Random* /*random*/) const {
    return nullptr;
  }
  /// Whether the weights are independent of the number of devices.
  virtual bool fits_any_devices() const { return false; }
  /// Adds to `gradients` the derivative with respect to the parameters of the sum over decisions of
  ///     -weight log p(action) - bonus entropy(p)
  virtual void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights,
                             double bonus, learn::Gradients<Scalar>& gradients) const = 0;

  learn::Parameters<Scalar> parameters;
};

}  // namespace trainyard::learned
