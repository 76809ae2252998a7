#pragma once

#include <deque>
#include <utility>

#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/giph_net.hpp"
#include "trainyard/place/learned/giph_network.hpp"

/// Definitions of GiphNetwork: the library instantiates it for float, tests for double.
namespace trainyard::learned {

using learn::index, learn::Index, learn::Matrix, learn::Variable;

template <class Scalar>
struct GiphNetwork<Scalar>::Record : Trial {
  std::deque<GpNet> nets;  // gpNet before each decision
};

template <class Scalar>
GiphNetwork<Scalar>::GiphNetwork(const GiphSizes& sizes, std::uint64_t seed) : sizes_(sizes) {
  Random random = Random::stream(seed, 0x74);
  auto& all = this->parameters;
  input_ = learn::Dense::make(all, "input", GpNet::kNodeFeatures, sizes.width, random);
  down_ = learn::EdgeMessages::make(all, "down", GpNet::kEdgeFeatures, sizes.width, random);
  up_ = learn::EdgeMessages::make(all, "up", GpNet::kEdgeFeatures, sizes.width, random);
  mix_ = learn::Dense::make(all, "known", 2 * sizes.width, sizes.width, random);
  score_ = learn::ScoreHead::make(all, "score", GpNet::kNodeFeatures, sizes.width, random);
}

template <class Scalar>
Variable GiphNetwork<Scalar>::scores(learn::Tape<Scalar>& tape, const GpNet& net) const {
  const Variable features = tape.constant(net.nodes.template cast<Scalar>());
  const Variable self = tape.leaky_relu(input_(tape, features));
  const auto pass = [&](const learn::EdgeMessages& layer, const GpNet::Messages& messages) {
    const Variable edges = layer.edges(tape, tape.constant(messages.edges.template cast<Scalar>()));
    Variable x = self;
    for (std::size_t round = 0; round < sizes_.rounds; ++round)
      x = layer(tape, self, x, edges, messages.senders, messages.inbox);
    return x;
  };
  const Variable down = pass(down_, net.down);
  const Variable up = pass(up_, net.up);
  return score_(tape, features, mix_(tape, tape.concat({down, up})));
}

template <class Scalar>
std::unique_ptr<Trial> GiphNetwork<Scalar>::run(const PlacementTask& task, Random* random,
                                                std::span<const std::uint32_t>,
                                                std::span<const std::uint32_t> start) const {
  auto record = std::make_unique<Record>();
  Devices now = start.empty() ? task.start : Devices(start.begin(), start.end());
  const DopplerGraph graph{task};
  PlacementCosts evaluator{task};
  const std::size_t count = task.devices();
  record->devices = now;
  record->costs.push_back(evaluator.cost(now));
  double least = record->costs.front();
  std::vector<std::uint8_t> allowed = task.may_run;
  std::size_t last = task.size();
  for (std::size_t step = 0; step < sizes_.steps * task.size(); ++step) {
    const GpNet& net = record->nets.emplace_back(task, graph, now);
    learn::Tape<Scalar> tape{this->parameters};
    const auto mask = [&](std::size_t group, bool free) {
      for (std::size_t d = 0; d < count; ++d) allowed[group * count + d] = free ? task.allowed(group)[d] : 0;
    };
    if (last < task.size() && task.size() > 1) mask(last, false);
    std::vector<double> p = learn::probabilities<Scalar>(tape.value(scores(tape, net)).col(0), allowed);
    if (last < task.size()) mask(last, true);
    const std::size_t node = record->decide(task, std::move(p), random);
    last = node / count;
    const auto device = static_cast<std::uint32_t>(node % count);
    const bool moves = now[last] != device;
    now[last] = device;
    record->costs.push_back(moves ? evaluator.cost(now) : record->costs.back());
    if (record->costs.back() >= least) continue;
    least = record->costs.back();
    record->devices = now;
  }
  return record;
}

template <class Scalar>
void GiphNetwork<Scalar>::add_gradients(const Trial& trial, const PlacementTask&, std::span<const double> weights,
                                        double bonus, learn::Gradients<Scalar>& gradients) const {
  const auto& record = static_cast<const Record&>(trial);
  for (std::size_t step = 0; step < trial.actions.size(); ++step) {
    learn::Tape<Scalar> tape{this->parameters};
    const Variable y = scores(tape, record.nets[step]);
    Matrix<Scalar> seed(tape.value(y).rows(), 1);
    learn::choice_gradient(trial.probabilities[step], trial.actions[step], weights[step], bonus, seed.col(0));
    tape.backward(y, seed, gradients);
  }
}

}  // namespace trainyard::learned
