#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "trainyard/learn/layers.hpp"
#include "trainyard/learn/policy_gradient.hpp"

using namespace trainyard;
using namespace trainyard::learn;

namespace {

using M = Matrix<double>;
using Build = std::function<Variable(Tape<double>&)>;

M random_matrix(Index rows, Index columns, Random& random) {
  M m(rows, columns);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = 2 * random.uniform() - 1;
  return m;
}

/// Compares the gradient of sum(weights * y), for each element of each parameter, with central differences.
void check_gradients(Parameters<double>& parameters, const Build& build, Random& random) {
  M weights;
  Gradients<double> gradients = zero_gradients(parameters);
  {
    Tape<double> tape{parameters};
    const Variable y = build(tape);
    weights = random_matrix(tape.value(y).rows(), tape.value(y).cols(), random);
    tape.backward(y, weights, gradients);
  }
  const auto loss = [&] {
    Tape<double> tape{parameters};
    return tape.value(build(tape)).cwiseProduct(weights).sum();
  };
  constexpr double kStep = 1e-6;
  double largest = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p)
    for (Index i = 0; i < parameters[p].size(); ++i) {
      double& x = parameters[p].data()[i];
      const double before = x;
      x = before + kStep;
      const double above = loss();
      x = before - kStep;
      const double below = loss();
      x = before;
      const double expected = (above - below) / (2 * kStep);
      const double error = std::abs(gradients[p].data()[i] - expected) / std::max(1.0, std::abs(expected));
      CAPTURE(parameters.name(p));
      CHECK(error < 1e-6);
      largest = std::max(largest, std::abs(expected));
    }
  CHECK(largest > 1e-3);  // the gradients are not all zero
}

/// Moves all parameters, biases too, so that no ReLU is at its kink.
void shift(Parameters<double>& parameters, Random& random) {
  for (std::size_t p = 0; p < parameters.size(); ++p)
    parameters[p] += 0.3 * random_matrix(parameters[p].rows(), parameters[p].cols(), random);
}

RowLists some_lists() {
  RowLists lists;
  lists.add(std::vector<std::uint32_t>{});
  lists.add(std::vector<std::uint32_t>{0});
  lists.add(std::vector<std::uint32_t>{0, 1});
  lists.add(std::vector<std::uint32_t>{2, 0, 3});
  lists.add(std::vector<std::uint32_t>{4});
  return lists;
}

}  // namespace

TEST_CASE("the gradients of every operation agree with finite differences") {
  Random random{1};
  const RowLists lists = some_lists();
  using Unary = std::function<Variable(Tape<double>&, Variable, Variable)>;
  const std::vector<Unary> operations{
      [](auto& t, Variable a, Variable b) { return t.matmul_transposed(a, b); },
      [](auto& t, Variable a, Variable b) { return t.matmul(t.matmul_transposed(a, b), a); },
      [](auto& t, Variable a, Variable b) { return t.add(a, b); },
      [](auto& t, Variable a, Variable b) { return t.multiply(a, b); },
      [](auto& t, Variable a, Variable b) { return t.add_row(a, t.take_rows(b, {2})); },
      [](auto& t, Variable a, Variable) { return t.relu(a); },
      [](auto& t, Variable a, Variable) { return t.tanh(a); },
      [](auto& t, Variable a, Variable) { return t.sigmoid(a); },
      [](auto& t, Variable a, Variable) { return t.softmax(a); },
      [](auto& t, Variable a, Variable b) {
        return t.concat({a, b, a});
      },
      [](auto& t, Variable a, Variable b) {
        return t.stack({b, a, b});
      },
      [](auto& t, Variable a, Variable) { return t.columns(a, 1, 2); },
      [](auto& t, Variable a, Variable) {
        return t.take_rows(a, {3, 3, 0});
      },
      [](auto& t, Variable a, Variable) {
        return t.keep_rows(a, {1, 0, 1, 0, 1});
      },
      [&lists](auto& t, Variable a, Variable) { return t.sum_rows(a, lists); },
  };
  for (const Unary& operation : operations) {
    Parameters<double> parameters;
    parameters.add("a", 5, 3, random);
    parameters.add("b", 5, 3, random);
    check_gradients(
        parameters, [&](Tape<double>& tape) { return operation(tape, tape.parameter(0), tape.parameter(1)); }, random);
  }
}

TEST_CASE("the gradients of a dense layer agree with finite differences") {
  Random random{2};
  Parameters<double> parameters;
  const Dense first = Dense::make(parameters, "first", 4, 6, random);
  const Dense second = Dense::make(parameters, "second", 6, 3, random);
  shift(parameters, random);
  const M x = random_matrix(5, 4, random);
  check_gradients(
      parameters,
      [&](Tape<double>& tape) { return tape.softmax(second(tape, tape.relu(first(tape, tape.constant(x))))); }, random);
}

TEST_CASE("the gradients of LSTM steps with attention agree with finite differences") {
  Random random{3};
  Parameters<double> parameters;
  const LstmCell encoder = LstmCell::make(parameters, "encoder", 3, 4, random);
  const LstmCell decoder = LstmCell::make(parameters, "decoder", 4, 4, random);
  const Attention attention = Attention::make(parameters, "attention", 4, 4, 5, random);
  const M x = random_matrix(6, 3, random);
  check_gradients(
      parameters,
      [&](Tape<double>& tape) {
        const Variable input = tape.constant(x);
        LstmCell::State state = encoder.start(tape);
        std::vector<Variable> remembered, outputs;
        for (std::uint32_t step = 0; step < 6; ++step) {
          state = encoder(tape, tape.take_rows(input, {step}), state);
          remembered.push_back(state.hidden);
        }
        const Variable memory = tape.stack(remembered), keys = attention.keys(tape, memory);
        for (int step = 0; step < 3; ++step) {
          state = decoder(tape, attention(tape, memory, keys, state.hidden), state);
          outputs.push_back(state.hidden);
        }
        return tape.stack(outputs);
      },
      random);
}

TEST_CASE("the gradients of rounds of messages and of pooling over sets agree with finite differences") {
  Random random{4};
  Parameters<double> parameters;
  const Dense input = Dense::make(parameters, "input", 3, 4, random);
  const MessagePassing round = MessagePassing::make(parameters, "round", 4, random);
  const SetPooling pooling = SetPooling::make(parameters, "pooling", 4, 3, random);
  shift(parameters, random);
  const M x = random_matrix(5, 3, random);
  const RowLists lists = some_lists();
  check_gradients(
      parameters,
      [&](Tape<double>& tape) {
        const Variable self = tape.relu(input(tape, tape.constant(x)));
        Variable y = self;
        for (int k = 0; k < 3; ++k) y = round(tape, self, y, lists);
        return tape.concat({pooling(tape, y, lists), y});
      },
      random);
}

TEST_CASE("the gradient of a choice and of the entropy bonus agrees with finite differences, also with a mask") {
  Random random{5};
  for (const bool masked : {false, true}) {
    const std::vector<std::uint8_t> allowed =
        masked ? std::vector<std::uint8_t>{1, 0, 1, 1} : std::vector<std::uint8_t>{};
    M logits = random_matrix(1, 4, random);
    const std::size_t action = 2;
    const double weight = 1.7, bonus = 0.3;
    const auto loss = [&] {
      const auto p = probabilities<double>(logits.row(0), allowed);
      return -weight * std::log(p[action]) - bonus * entropy(p);
    };
    M gradient(1, 4);
    const auto p = probabilities<double>(logits.row(0), allowed);
    choice_gradient(p, action, weight, bonus, gradient.row(0));
    for (Index i = 0; i < 4; ++i) {
      const double before = logits(0, i);
      logits(0, i) = before + 1e-6;
      const double above = loss();
      logits(0, i) = before - 1e-6;
      const double below = loss();
      logits(0, i) = before;
      CHECK(std::abs(gradient(0, i) - (above - below) / 2e-6) < 1e-6);
    }
    if (masked) CHECK(p[1] == 0);
  }
}
