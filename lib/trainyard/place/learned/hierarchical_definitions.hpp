#pragma once

#include <cmath>
#include <utility>

#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/hierarchical_network.hpp"
#include "trainyard/place/learned/sequence.hpp"

/// Definitions of HierarchicalNetwork: the library instantiates it for float, tests for double.
namespace trainyard::learned {

using learn::index, learn::Index, learn::Matrix, learn::Variable;

namespace detail {

/// Input row of the grouper: static features of a group, the means of those of its producers and of its consumers, and
/// its position in the order, as a number and as waves of several lengths.
constexpr std::size_t kWaves = 4;
constexpr std::size_t kRowWidth = 3 * kStaticFeatures + 2 * kWaves + 1;

template <class Scalar>
Matrix<Scalar> grouper_rows(const PlacementTask& task) {
  Matrix<Scalar> rows = Matrix<Scalar>::Zero(index(task.size()), index(kRowWidth));
  const Matrix<Scalar> features = task.features.template cast<Scalar>();
  const auto width = index(kStaticFeatures);
  const auto mean = [&](Index row, Index at, std::span<const std::uint32_t> others) {
    for (const std::uint32_t other : others) rows.row(row).middleCols(at, width) += features.row(other);
    if (!others.empty()) rows.row(row).middleCols(at, width) /= static_cast<Scalar>(others.size());
  };
  for (std::size_t group = 0; group < task.size(); ++group) {
    const auto row = index(group);
    rows.row(row).leftCols(width) = features.row(row);
    mean(row, width, task.parents[group]);
    mean(row, 2 * width, task.children[group]);
    const double place = static_cast<double>(group) / static_cast<double>(task.size());
    rows(row, 3 * width) = static_cast<Scalar>(place);
    for (std::size_t wave = 0; wave < kWaves; ++wave) {
      // Triangle waves of period 2 / 2^wave, in pairs a quarter of a period apart: like sine and cosine, and exact.
      const double at = place * static_cast<double>(std::size_t{1} << wave) / 2;
      const auto triangle = [](double x) { return 4 * std::abs(x - std::floor(x + 0.5)) - 1; };
      rows(row, 3 * width + index(1 + 2 * wave)) = static_cast<Scalar>(triangle(at));
      rows(row, 3 * width + index(2 + 2 * wave)) = static_cast<Scalar>(triangle(at + 0.25));
    }
  }
  return rows;
}

template <class Scalar>
Matrix<Scalar> placer_rows(const PlacementTask& task, std::span<const std::uint32_t> group_of, std::size_t groups) {
  const auto width = index(kStaticFeatures);
  Matrix<Scalar> rows = Matrix<Scalar>::Zero(index(groups), width + 1 + index(groups));
  for (std::size_t node = 0; node < task.size(); ++node) {
    const Index row = group_of[node];
    rows.row(row).leftCols(width) += task.features.row(index(node)).template cast<Scalar>();
    rows(row, width) += 1;
    for (const std::uint32_t child : task.children[node]) rows(row, width + 1 + group_of[child]) = 1;
  }
  for (Index row = 0; row < rows.rows(); ++row) {
    if (rows(row, width) > 0) rows.row(row).leftCols(width) /= rows(row, width);
    rows(row, width) /= static_cast<Scalar>(task.size());
  }
  return rows;
}

}  // namespace detail

template <class Scalar>
struct HierarchicalNetwork<Scalar>::Record : Trial {
  Matrix<Scalar> members, groups;
};

template <class Scalar>
HierarchicalNetwork<Scalar>::HierarchicalNetwork(std::size_t devices, std::uint64_t seed, std::size_t groups,
                                                 std::size_t width)
    : groups_(groups) {
  Random random = Random::stream(seed, 0x72);
  hidden_ = learn::Dense::make(this->parameters, "grouper.hidden", detail::kRowWidth, width, random);
  choose_ = learn::Dense::make(this->parameters, "grouper.output", width, groups, random);
  placer_ = SequenceToSequence::make(this->parameters, kStaticFeatures + 1 + groups, width, devices, random);
}

template <class Scalar>
Variable HierarchicalNetwork<Scalar>::group_logits(learn::Tape<Scalar>& tape, const Matrix<Scalar>& rows) const {
  return choose_(tape, tape.relu(hidden_(tape, tape.constant(rows))));
}

template <class Scalar>
std::unique_ptr<Trial> HierarchicalNetwork<Scalar>::run(const PlacementTask& task, Random* random,
                                                        std::span<const std::uint32_t>,
                                                        std::span<const std::uint32_t>) const {
  auto record = std::make_unique<Record>();
  const auto decide = [&](const auto& logits) {
    return record->decide(task, learn::probabilities<Scalar>(logits, {}), random);
  };
  learn::Tape<Scalar> tape{this->parameters};
  record->members = detail::grouper_rows<Scalar>(task);
  const Matrix<Scalar> logits = tape.value(group_logits(tape, record->members));
  for (Index node = 0; node < logits.rows(); ++node) decide(logits.row(node));
  const std::vector<std::uint32_t> group_of = record->actions;
  record->groups = detail::placer_rows<Scalar>(task, group_of, groups_);
  placer_.run(tape, tape.constant(record->groups),
              [&](std::size_t, const Matrix<Scalar>& row) { return decide(row.row(0)); });
  for (std::size_t node = 0; node < task.size(); ++node) {
    std::uint32_t device = record->actions[task.size() + group_of[node]];
    if (task.allowed(node)[device] == 0) device = static_cast<std::uint32_t>(learn::first_set(task.allowed(node)));
    record->devices.push_back(device);
  }
  return record;
}

template <class Scalar>
void HierarchicalNetwork<Scalar>::add_gradients(const Trial& trial, const PlacementTask& task,
                                                std::span<const double> weights, double bonus,
                                                learn::Gradients<Scalar>& gradients) const {
  const auto& record = static_cast<const Record&>(trial);
  const auto part = [&](learn::Tape<Scalar>& tape, Variable y, std::size_t first) {
    Matrix<Scalar> seed(tape.value(y).rows(), tape.value(y).cols());
    for (Index row = 0; row < seed.rows(); ++row) {
      const std::size_t at = first + static_cast<std::size_t>(row);
      learn::choice_gradient(trial.probabilities[at], trial.actions[at], weights[at], bonus, seed.row(row));
    }
    tape.backward(y, seed, gradients);
  };
  learn::Tape<Scalar> grouper{this->parameters};
  part(grouper, group_logits(grouper, record.members), 0);
  learn::Tape<Scalar> placer{this->parameters};
  part(placer,
       placer_.run(placer, placer.constant(record.groups),
                   [&](std::size_t step, const Matrix<Scalar>&) { return trial.actions[task.size() + step]; }),
       task.size());
}

}  // namespace trainyard::learned
