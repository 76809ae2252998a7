#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "trainyard/place/learned/placeto_definitions.hpp"

namespace trainyard::learned {

/// Placeto's logits of all decisions of a trial, steps x devices, in one pass on a tape.
template <class Scalar>
learn::Variable placeto_logits(learn::Tape<Scalar>& tape, const PlacetoNetwork<Scalar>& network, const Trial& trial) {
  const auto& record = static_cast<const PlacetoRecord<Scalar>&>(trial);
  const PlacetoSizes& sizes = network.sizes();
  const PlacetoLayers& layers = network.layers();
  const Variable x = tape.relu(layers.input(tape, tape.constant(record.features.matrix())));
  std::vector<Variable> ends;
  for (const std::size_t up : {0U, 1U}) {
    const Variable self = tape.relu(layers.self[up](tape, x));
    Variable y = self;
    for (const auto& round : record.directions[up].rounds)
      y = layers.messages[up](tape, tape.take_rows(self, round.self), y, round.senders);
    ends.push_back(tape.take_rows(y, record.directions[up].ends));
  }
  const Variable embeddings = tape.concat(ends);
  std::vector<Variable> known;
  if (sizes.embedding != Embedding::aggregator) known.push_back(tape.take_rows(embeddings, record.own));
  for (std::size_t p = 0; p < layers.pools.size(); ++p)
    known.push_back(layers.pools[p](tape, embeddings, record.pools[p].sets));
  Matrix<Scalar> from = Matrix<Scalar>::Zero(index(record.from.size()), index(sizes.devices));
  for (std::size_t step = 0; step < record.from.size(); ++step) from(index(step), record.from[step]) = 1;
  const Matrix<Scalar> seen = record.device.matrix();
  Variable scores = layers.device_output(tape, tape.relu(layers.device(tape, tape.constant(seen))));
  if (sizes.look_ahead) {
    const Variable look = tape.constant(seen.rightCols(index(kLookFeatures)));
    scores = tape.add(scores, tape.matmul(look, tape.parameter(layers.gain)));
  }
  std::vector<Variable> columns;
  for (std::size_t device = 0; device < sizes.devices; ++device) {
    std::vector<std::uint32_t> items;
    for (std::size_t step = 0; step < record.from.size(); ++step)
      items.push_back(static_cast<std::uint32_t>(step * sizes.devices + device));
    columns.push_back(tape.take_rows(scores, std::move(items)));
  }
  return tape.add(tape.add(layers.output(tape, tape.relu(layers.hidden(tape, tape.concat(known)))),
                           tape.matmul(tape.constant(std::move(from)), tape.parameter(layers.stay))),
                  tape.concat(columns));
}

}  // namespace trainyard::learned
