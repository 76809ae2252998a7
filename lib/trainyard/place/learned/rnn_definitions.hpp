#pragma once

#include <numeric>
#include <utility>

#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/rnn_network.hpp"
#include "trainyard/place/learned/sequence.hpp"

/// Definitions of RnnNetwork: the library instantiates it for float, tests for double.
namespace trainyard::learned {

using learn::index, learn::Index, learn::Matrix, learn::Variable;

namespace detail {

constexpr std::size_t kAdjacency = 128;

/// A row for each step: its group's features, and the steps that it receives from and sends to.
template <class Scalar>
Matrix<Scalar> sequence_rows(const PlacementTask& task, std::span<const std::uint32_t> order) {
  Matrix<Scalar> rows = Matrix<Scalar>::Zero(index(order.size()), index(kStaticFeatures + 2 * kAdjacency));
  std::vector<std::size_t> step_of(task.size());
  for (std::size_t step = 0; step < order.size(); ++step) step_of[order[step]] = step;
  for (std::size_t step = 0; step < order.size(); ++step) {
    const auto row = index(step);
    rows.row(row).leftCols(index(kStaticFeatures)) = task.features.row(order[step]).template cast<Scalar>();
    for (const std::uint32_t other : task.parents[order[step]])
      if (step_of[other] < kAdjacency) rows(row, index(kStaticFeatures + step_of[other])) = 1;
    for (const std::uint32_t other : task.children[order[step]])
      if (step_of[other] < kAdjacency) rows(row, index(kStaticFeatures + kAdjacency + step_of[other])) = 1;
  }
  return rows;
}

}  // namespace detail

template <class Scalar>
struct RnnNetwork<Scalar>::Record : Trial {
  Matrix<Scalar> rows;
};

template <class Scalar>
RnnNetwork<Scalar>::RnnNetwork(std::size_t devices, std::uint64_t seed, std::size_t width) {
  Random random = Random::stream(seed, 0x71);
  network_ =
      SequenceToSequence::make(this->parameters, kStaticFeatures + 2 * detail::kAdjacency, width, devices, random);
}

template <class Scalar>
std::unique_ptr<Trial> RnnNetwork<Scalar>::run(const PlacementTask& task, Random* random,
                                               std::span<const std::uint32_t> order,
                                               std::span<const std::uint32_t>) const {
  auto record = std::make_unique<Record>();
  record->order.assign(order.begin(), order.end());
  if (order.empty()) {
    record->order.resize(task.size());
    std::iota(record->order.begin(), record->order.end(), std::uint32_t{0});
  }
  record->devices = task.start;
  record->rows = detail::sequence_rows<Scalar>(task, record->order);
  learn::Tape<Scalar> tape{this->parameters};
  network_.run(tape, tape.constant(record->rows), [&](std::size_t step, const Matrix<Scalar>& logits) {
    const std::uint32_t group = record->order[step];
    return record->devices[group] =
               record->decide(task, learn::probabilities<Scalar>(logits.row(0), task.allowed(group)), random);
  });
  return record;
}

template <class Scalar>
void RnnNetwork<Scalar>::add_gradients(const Trial& trial, const PlacementTask&, std::span<const double> weights,
                                       double bonus, learn::Gradients<Scalar>& gradients) const {
  learn::Tape<Scalar> tape{this->parameters};
  const Variable y = network_.run(tape, tape.constant(static_cast<const Record&>(trial).rows),
                                  [&](std::size_t step, const Matrix<Scalar>&) { return trial.actions[step]; });
  Matrix<Scalar> seed(index(trial.actions.size()), index(network_.choices));
  for (std::size_t step = 0; step < trial.actions.size(); ++step)
    learn::choice_gradient(trial.probabilities[step], trial.actions[step], weights[step], bonus, seed.row(index(step)));
  tape.backward(y, seed, gradients);
}

}  // namespace trainyard::learned
