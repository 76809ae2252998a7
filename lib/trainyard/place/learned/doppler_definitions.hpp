#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/doppler_graph.hpp"
#include "trainyard/place/learned/doppler_network.hpp"
#include "trainyard/place/learned/doppler_state.hpp"
#include "trainyard/place/learned/growing_rows.hpp"

/// Definitions of DopplerNetwork: the library instantiates it for float, tests for double.
namespace trainyard::learned {

using learn::index, learn::Index, learn::Matrix, learn::Variable;

/// Inputs of all decisions, one after the other, with a row for each choice.
template <class Scalar>
struct DopplerNetwork<Scalar>::Record : Trial {
  explicit Record(const PlacementTask& task) : graph(task) {}

  DopplerGraph graph;
  std::vector<std::uint32_t> candidates;  // of SEL: groups
  std::vector<std::uint32_t> targets;     // of PLC: the group, once for each device
  GrowingRows<Scalar> candidate_features{DopplerGraph::kFeatures}, device_features{DopplerState::kFeatures};
  learn::RowLists members;  // of PLC: the groups on the device
};

template <class Scalar>
Variable DopplerNetwork<Scalar>::Encoder::operator()(learn::Tape<Scalar>& tape, const DopplerGraph& graph,
                                                     std::size_t rounds) const {
  const Variable self = tape.leaky_relu(input(tape, tape.constant(learn::standardized<Scalar>(graph.features))));
  const Variable edges = messages.edges(tape, tape.constant(learn::standardized<Scalar>(graph.edge_costs)));
  Variable x = self;
  for (std::size_t round = 0; round < rounds; ++round) x = messages(tape, self, x, edges, graph.senders, graph.inbox);
  return x;
}

template <class Scalar>
auto DopplerNetwork<Scalar>::make_encoder(learn::Parameters<Scalar>& parameters, const std::string& name,
                                          std::size_t width, Random& random) -> Encoder {
  Encoder encoder;
  encoder.input = learn::Dense::make(parameters, name + ".input", DopplerGraph::kFeatures, width, random);
  encoder.messages = learn::EdgeMessages::make(parameters, name, 1, width, random);
  return encoder;
}

template <class Scalar>
DopplerNetwork<Scalar>::DopplerNetwork(const DopplerSizes& sizes, std::uint64_t seed) : sizes_(sizes) {
  Random random = Random::stream(seed, 0x73);
  auto& all = this->parameters;
  const std::size_t width = sizes.width;
  select_ = make_encoder(all, "select", width, random);
  select_mix_ = learn::Dense::make(all, "select.known", 3 * width, width, random);
  select_score_ = learn::ScoreHead::make(all, "select.score", DopplerGraph::kFeatures, width, random);
  place_ = make_encoder(all, "place", width, random);
  place_node_ = learn::Dense::make(all, "place.node", DopplerGraph::kFeatures, width, random);
  place_mix_ = learn::Dense::make(all, "place.known", 2 * width, width, random);
  place_member_ = all.add("place.member", width, width, random);
  place_score_ = learn::ScoreHead::make(all, "place.score", DopplerState::kFeatures, width, random);
}

template <class Scalar>
Variable DopplerNetwork<Scalar>::select_known(learn::Tape<Scalar>& tape, const DopplerGraph& graph) const {
  const Variable x = select_(tape, graph, sizes_.rounds);
  const Variable bottom = tape.sum_rows(x, graph.bottom_path), top = tape.sum_rows(x, graph.top_path);
  return select_mix_(tape, tape.concat({x, bottom, top}));
}

template <class Scalar>
auto DopplerNetwork<Scalar>::place_known(learn::Tape<Scalar>& tape, const DopplerGraph& graph) const -> PlaceKnown {
  const Variable x = place_(tape, graph, sizes_.rounds);
  const Variable node = tape.leaky_relu(place_node_(tape, tape.constant(learn::standardized<Scalar>(graph.features))));
  return {place_mix_(tape, tape.concat({node, x})), tape.matmul(x, tape.parameter(place_member_))};
}

template <class Scalar>
template <class Decide>
auto DopplerNetwork<Scalar>::construct(const PlacementTask& task, std::span<const std::uint32_t> devices,
                                       const Decide& decide) const -> std::unique_ptr<Record> {
  auto record = std::make_unique<Record>(task);
  const DopplerGraph& graph = record->graph;
  const std::size_t count = task.devices();
  record->devices.assign(task.size(), 0);
  learn::Tape<Scalar> tape{this->parameters};
  const Matrix<Scalar> select = tape.value(select_known(tape, graph));
  const PlaceKnown known = place_known(tape, graph);
  const Matrix<Scalar>& target = tape.value(known.target);
  const Matrix<Scalar>& member = tape.value(known.member);
  DopplerState state{task, graph};
  std::vector<std::vector<std::uint32_t>> on(count);
  Matrix<Scalar> sums = Matrix<Scalar>::Zero(index(count), index(sizes_.width));
  const auto append = [](GrowingRows<Scalar>& rows, const Matrix<Scalar>& more) {
    std::copy_n(more.data(), more.size(), rows.append(static_cast<std::size_t>(more.rows())));
  };
  for (std::size_t step = 0; step < task.size(); ++step) {
    const std::vector<std::uint32_t> ready(state.ready().begin(), state.ready().end());
    Matrix<double> raw(index(ready.size()), graph.features.cols());
    Matrix<Scalar> rows(index(ready.size()), select.cols());
    for (std::size_t i = 0; i < ready.size(); ++i) {
      raw.row(index(i)) = graph.features.row(ready[i]);
      rows.row(index(i)) = select.row(ready[i]);
    }
    const Matrix<Scalar> features = learn::standardized<Scalar>(raw);
    append(record->candidate_features, features);
    record->candidates.insert(record->candidates.end(), ready.begin(), ready.end());
    const std::uint32_t group = ready[decide(
        *record, learn::probabilities<Scalar>(select_score_.apply(this->parameters, features, rows).col(0), {}),
        state.critical_choice())];

    const Matrix<Scalar> device_features = learn::standardized<Scalar>(state.device_features(group));
    append(record->device_features, device_features);
    Matrix<Scalar> device_rows(index(count), target.cols());
    for (std::size_t device = 0; device < count; ++device) {
      device_rows.row(index(device)) =
          target.row(group) + learn::sum_scale<Scalar>(on[device].size()) * sums.row(index(device));
      record->members.add(on[device]);
      record->targets.push_back(group);
    }
    const auto device = static_cast<std::uint32_t>(
        decide(*record,
               learn::probabilities<Scalar>(place_score_.apply(this->parameters, device_features, device_rows).col(0),
                                            task.allowed(group)),
               devices.empty() ? state.earliest_device(group) : devices[group]));
    record->devices[group] = device;
    on[device].push_back(group);
    sums.row(device) += member.row(group);
    state.place(group, device);
  }
  return record;
}

template <class Scalar>
std::unique_ptr<Trial> DopplerNetwork<Scalar>::run(const PlacementTask& task, Random* random,
                                                   std::span<const std::uint32_t>,
                                                   std::span<const std::uint32_t>) const {
  return construct(task, {}, [&task, random](Record& record, std::vector<double> p, std::size_t) {
    return record.decide(task, std::move(p), random);
  });
}

template <class Scalar>
std::unique_ptr<Trial> DopplerNetwork<Scalar>::follow(const PlacementTask& task, std::span<const std::uint32_t> devices,
                                                      Random* random) const {
  return construct(task, devices, [&task, random](Record& record, std::vector<double> p, std::size_t teacher) {
    const std::size_t taken = random ? learn::draw(p, *random) : teacher;
    record.note(task, std::move(p), static_cast<std::uint32_t>(teacher));
    return taken;
  });
}

template <class Scalar>
void DopplerNetwork<Scalar>::add_gradients(const Trial& trial, const PlacementTask& task,
                                           std::span<const double> weights, double bonus,
                                           learn::Gradients<Scalar>& gradients) const {
  const auto& record = static_cast<const Record&>(trial);
  // Derivatives of every second decision from `first` on, which are those of one policy.
  const auto seed = [&](std::size_t first) {
    Index rows = 0;
    for (std::size_t at = first; at < trial.actions.size(); at += 2) rows += index(trial.probabilities[at].size());
    Matrix<Scalar> g(rows, 1);
    Index row = 0;
    for (std::size_t at = first; at < trial.actions.size(); at += 2) {
      const auto& p = trial.probabilities[at];
      learn::choice_gradient(p, trial.actions[at], weights[at], bonus, g.col(0).segment(row, index(p.size())));
      row += index(p.size());
    }
    return g;
  };
  if (task.size() == 0) return;
  learn::Tape<Scalar> select{this->parameters};
  const Variable candidates = select.take_rows(select_known(select, record.graph), record.candidates);
  select.backward(select_score_(select, select.constant(record.candidate_features.matrix()), candidates), seed(0),
                  gradients);
  learn::Tape<Scalar> place{this->parameters};
  const PlaceKnown known = place_known(place, record.graph);
  const Variable devices =
      place.add(place.take_rows(known.target, record.targets), place.sum_rows(known.member, record.members));
  place.backward(place_score_(place, place.constant(record.device_features.matrix()), devices), seed(1), gradients);
}

}  // namespace trainyard::learned
