#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/placeto_backward.hpp"
#include "trainyard/place/learned/placeto_network.hpp"
#include "trainyard/place/learned/placeto_rollout.hpp"

/// Definitions of PlacetoNetwork: the library instantiates it for float, tests for double.
namespace trainyard::learned {

using learn::index, learn::Index, learn::Matrix, learn::Variable;

namespace detail {

/// Derivative with respect to the logits: steps x devices.
template <class Scalar>
Matrix<Scalar> choice_gradients(const Trial& trial, std::span<const double> weights, double bonus,
                                std::size_t devices) {
  Matrix<Scalar> seed(index(trial.actions.size()), index(devices));
  for (std::size_t step = 0; step < trial.actions.size(); ++step)
    learn::choice_gradient(trial.probabilities[step], trial.actions[step], weights[step], bonus, seed.row(index(step)));
  return seed;
}

}  // namespace detail

template <class Scalar>
PlacetoNetwork<Scalar>::PlacetoNetwork(const PlacetoSizes& sizes, std::uint64_t seed) : sizes_(sizes) {
  if (sizes_.embedding != Embedding::messages) sizes_.rounds = 0;
  auto& all = this->parameters;
  Random random = Random::stream(seed, 0x70);
  const std::size_t features = kStaticFeatures + 1 + 2 * sizes_.devices;
  layers_.input = learn::Dense::make(all, "input", features, sizes_.width, random);
  for (const std::size_t up : {0U, 1U}) {
    const std::string name = up ? "up" : "down";
    layers_.self[up] = learn::Dense::make(all, name + ".self", sizes_.width, sizes_.width, random);
    if (sizes_.rounds > 0) layers_.messages[up] = learn::MessagePassing::make(all, name, sizes_.width, random);
  }
  const bool one = sizes_.embedding == Embedding::aggregator;
  for (const char* name : {"ancestors", "descendants", "parallel"}) {
    if (one && !layers_.pools.empty()) break;
    layers_.pools.push_back(learn::SetPooling::make(all, one ? "all" : name, 2 * sizes_.width, sizes_.pool, random));
  }
  const std::size_t known = (one ? 0 : 2 * sizes_.width) + layers_.pools.size() * sizes_.pool;
  layers_.hidden = learn::Dense::make(all, "hidden", known, sizes_.hidden, random);
  layers_.output = learn::Dense::make(all, "output", sizes_.hidden, sizes_.devices, random);
  all[layers_.output.weight] *= Scalar{0.3F};  // nearly uniform at first
  layers_.device = learn::Dense::make(all, "device", sizes_.device_features(), sizes_.device, random);
  layers_.device_output = learn::Dense::make(all, "device.output", sizes_.device, 1, random);
  all[layers_.device_output.weight] *= Scalar{0.3F};
  if (sizes_.look_ahead) {
    layers_.gain = all.add_zero("gain", kLookFeatures, 1);
    all[layers_.gain](1, 0) = Scalar{6};
  }
  layers_.stay = all.add_zero("stay", sizes_.devices, sizes_.devices);
  const double others = static_cast<double>(std::max<std::size_t>(2, sizes_.devices) - 1);
  all[layers_.stay].diagonal().setConstant(
      static_cast<Scalar>(portable_log(others * (1 - sizes_.moves) / sizes_.moves)));
}

template <class Scalar>
std::unique_ptr<Trial> PlacetoNetwork<Scalar>::run(const PlacementTask& task, Random* random,
                                                   std::span<const std::uint32_t> order,
                                                   std::span<const std::uint32_t> start) const {
  auto record = std::make_unique<Record>();
  record->devices = start.empty() ? task.start : Devices(start.begin(), start.end());
  std::vector<std::uint32_t> all(task.size());
  std::iota(all.begin(), all.end(), std::uint32_t{0});
  record->order = order.empty() ? all : std::vector<std::uint32_t>(order.begin(), order.end());
  PlacetoRollout<Scalar> rollout{sizes_, layers_, this->parameters, task, *record};
  for (std::size_t step = 0; step < record->order.size(); ++step) {
    const std::uint32_t node = record->order[step];
    rollout.set_current(node, true);
    if (step == 0) {
      rollout.update(all);
    } else {
      const std::uint32_t before = record->order[step - 1];
      rollout.set_current(before, false);
      const std::uint32_t changed[] = {std::min(before, node), std::max(before, node)};
      rollout.update(changed);
    }
    const std::uint32_t action = record->decide(task, rollout.decide(node), random);
    rollout.place(node, record->devices[node], action);
    record->devices[node] = action;
  }
  return record;
}

template <class Scalar>
void PlacetoNetwork<Scalar>::add_gradients(const Trial& trial, const PlacementTask&, std::span<const double> weights,
                                           double bonus, learn::Gradients<Scalar>& gradients) const {
  if (trial.actions.empty()) return;
  PlacetoBackward<Scalar>{sizes_, layers_, this->parameters, static_cast<const Record&>(trial), gradients}.run(
      detail::choice_gradients<Scalar>(trial, weights, bonus, sizes_.devices));
}

}  // namespace trainyard::learned
