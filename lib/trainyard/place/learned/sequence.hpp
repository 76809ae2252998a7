#pragma once

#include <vector>

#include "trainyard/place/learned/rnn_network.hpp"

namespace trainyard::learned {

template <class Scalar>
SequenceToSequence SequenceToSequence::make(learn::Parameters<Scalar>& parameters, std::size_t in, std::size_t width,
                                            std::size_t choices, Random& random) {
  SequenceToSequence made;
  made.choices = choices;
  made.embedding = learn::Dense::make(parameters, "embedding", in, width, random);
  made.encoder = learn::LstmCell::make(parameters, "encoder", width, width, random);
  // Input of the decoder: the encoder's state at the step, and the last choice (one more for the first step).
  made.decoder = learn::LstmCell::make(parameters, "decoder", width + choices + 1, width, random);
  made.attention = learn::Attention::make(parameters, "attention", width, width, width, random);
  made.output = learn::Dense::make(parameters, "output", 2 * width, choices, random);
  parameters[made.output.weight] *= Scalar{0.1F};  // nearly uniform at first
  return made;
}

template <class Scalar, class Choose>
learn::Variable SequenceToSequence::run(learn::Tape<Scalar>& tape, learn::Variable rows, const Choose& choose) const {
  using learn::Variable;
  const Variable x = tape.tanh(embedding(tape, rows));
  const auto steps = static_cast<std::uint32_t>(tape.value(x).rows());
  learn::LstmCell::State state = encoder.start(tape);
  std::vector<Variable> said;
  for (std::uint32_t step = 0; step < steps; ++step) {
    state = encoder(tape, tape.take_rows(x, {step}), state);
    said.push_back(state.hidden);
  }
  const Variable memory = tape.stack(said), keys = attention.keys(tape, memory);
  std::size_t last = choices;
  std::vector<Variable> logits;
  for (std::uint32_t step = 0; step < steps; ++step) {
    learn::Matrix<Scalar> before = learn::Matrix<Scalar>::Zero(1, learn::index(choices + 1));
    before(0, learn::index(last)) = 1;
    state = decoder(tape, tape.concat({tape.take_rows(memory, {step}), tape.constant(before)}), state);
    const Variable context = attention(tape, memory, keys, state.hidden);
    logits.push_back(output(tape, tape.concat({state.hidden, context})));
    last = choose(step, tape.value(logits.back()));
  }
  return tape.stack(logits);
}

}  // namespace trainyard::learned
