#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "trainyard/learn/adam.hpp"
#include "trainyard/learn/layers.hpp"
#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/learn/reachability.hpp"

using namespace trainyard;
using namespace trainyard::learn;

namespace {

std::vector<std::uint32_t> list(std::span<const std::uint32_t> items) { return {items.begin(), items.end()}; }
using Items = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("the first step of Adam has the length of the rate, against the gradient's sign") {
  Parameters<double> parameters;
  parameters.add_zero("w", 1, 2);
  Adam<double> adam{parameters};
  Gradients<double> gradients = zero_gradients(parameters);
  gradients[0] << 4, -0.5;
  adam.step(parameters, gradients, 0.1);
  // m / (1 - b1) = g and sqrt(v / (1 - b2)) = |g|, so w = -0.1 g / |g|.
  CHECK(parameters[0](0, 0) == doctest::Approx(-0.1));
  CHECK(parameters[0](0, 1) == doctest::Approx(0.1));
  adam.step(parameters, gradients, 0.1);
  CHECK(parameters[0](0, 0) == doctest::Approx(-0.2));
}

TEST_CASE("gradients are clipped to a norm over all parameters, and left alone below it") {
  Parameters<double> parameters;
  parameters.add_zero("a", 1, 1);
  parameters.add_zero("b", 1, 1);
  Gradients<double> gradients = zero_gradients(parameters);
  gradients[0] << 3;
  gradients[1] << 4;
  CHECK(clip_norm(gradients, 10) == doctest::Approx(5));  // sqrt(9 + 16)
  CHECK(gradients[1](0, 0) == 4);
  CHECK(clip_norm(gradients, 1) == doctest::Approx(5));
  CHECK(gradients[0](0, 0) == doctest::Approx(0.6));
  CHECK(gradients[1](0, 0) == doctest::Approx(0.8));
}

TEST_CASE("the quick tanh and sigmoid of floats are within 5e-7, odd, and bounded") {
  for (int i = -1200; i <= 1200; ++i) {
    const float x = 0.01F * static_cast<float>(i);
    CHECK(std::abs(static_cast<double>(hyperbolic_tangent(x)) - std::tanh(static_cast<double>(x))) < 5e-7);
    CHECK(std::abs(static_cast<double>(sigmoid(x)) - 1 / (1 + std::exp(-static_cast<double>(x)))) < 5e-7);
    CHECK(hyperbolic_tangent(-x) == -hyperbolic_tangent(x));
    CHECK(std::abs(hyperbolic_tangent(x)) <= 1);
  }
  CHECK(hyperbolic_tangent(1e30F) == hyperbolic_tangent(8.0F));
}

TEST_CASE("an LSTM cell computes what its equations say") {
  Parameters<double> parameters;
  Random random{1};
  const LstmCell cell = LstmCell::make(parameters, "cell", 1, 1, random);
  parameters[cell.gates.weight] << 0.5, -1, 2, 1, /* h: */ 0.25, 0.5, -0.5, 1;
  parameters[cell.gates.bias].setZero();
  Tape<double> tape{parameters};
  const auto sigma = [](double x) { return 1 / (1 + std::exp(-x)); };
  const LstmCell::State first = cell(tape, tape.constant(Matrix<double>::Constant(1, 1, 0.8)), cell.start(tape));
  // Gates before the activations: i = 0.4, f = -0.8, g = 1.6, o = 0.8, with h = c = 0.
  const double c1 = sigma(0.4) * std::tanh(1.6), h1 = sigma(0.8) * std::tanh(c1);
  CHECK(tape.value(first.cell)(0, 0) == doctest::Approx(c1));
  CHECK(tape.value(first.hidden)(0, 0) == doctest::Approx(h1));
  const LstmCell::State second = cell(tape, tape.constant(Matrix<double>::Constant(1, 1, 0.8)), first);
  const double c2 = sigma(-0.8 + 0.5 * h1) * c1 + sigma(0.4 + 0.25 * h1) * std::tanh(1.6 - 0.5 * h1);
  CHECK(tape.value(second.cell)(0, 0) == doctest::Approx(c2));
}

TEST_CASE("a diamond's ancestors, descendants and parallel nodes") {
  RowLists children;  // 0 -> 1, 2 -> 3; 4 isolated
  children.add(Items{1, 2});
  children.add(Items{3});
  children.add(Items{3});
  children.add(Items{});
  children.add(Items{});
  const Reachability sets{children};
  CHECK(list(sets.ancestors[3]) == Items{0, 1, 2});
  CHECK(list(sets.descendants[0]) == Items{1, 2, 3});
  CHECK(list(sets.parallel[1]) == Items{2, 4});
  CHECK(list(sets.parallel[4]) == Items{0, 1, 2, 3});
  CHECK(sets.ancestors[0].empty());
}

TEST_CASE("on a cycle every node is an ancestor and a descendant of every other") {
  RowLists children;  // 2 -> 0 -> 1 -> 2 -> 3
  children.add(Items{1});
  children.add(Items{2});
  children.add(Items{0, 3});
  children.add(Items{});
  const Reachability sets{children};
  CHECK(list(sets.ancestors[0]) == Items{1, 2});
  CHECK(list(sets.descendants[0]) == Items{1, 2, 3});
  CHECK(list(sets.ancestors[3]) == Items{0, 1, 2});
  CHECK(sets.parallel[1].empty());
}

TEST_CASE("choices are drawn as often as their probabilities say, masked ones never") {
  Random random{7};
  Matrix<double> logits(1, 3);
  logits << std::log(1.0), 50, std::log(3.0);
  const std::vector<std::uint8_t> allowed{1, 0, 1};
  const auto p = probabilities<double>(logits.row(0), allowed);
  CHECK(p[0] == doctest::Approx(0.25));
  CHECK(p[1] == 0);
  CHECK(most_probable(p) == 2);
  int counts[3] = {};
  for (int i = 0; i < 10'000; ++i) ++counts[draw(p, random)];
  CHECK(counts[1] == 0);
  CHECK(std::abs(counts[0] - 2500) < 200);  // 4.6 standard deviations of 43
}

TEST_CASE("messages do not depend on the numbering of the nodes") {
  Random random{9};
  Parameters<double> parameters;
  const MessagePassing round = MessagePassing::make(parameters, "round", 3, random);
  Matrix<double> x(3, 3);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = random.uniform();
  RowLists lists, renumbered;  // 0 and 1 send to 2; nodes renumbered 2 -> 0, 0 -> 1, 1 -> 2
  lists.add(Items{});
  lists.add(Items{});
  lists.add(Items{0, 1});
  renumbered.add(Items{1, 2});
  renumbered.add(Items{});
  renumbered.add(Items{});
  Matrix<double> moved(3, 3);
  moved << x.row(2), x.row(0), x.row(1);
  Tape<double> tape{parameters};
  const Variable a = tape.constant(x), b = tape.constant(moved);
  const Matrix<double> y = tape.value(round(tape, a, a, lists)), z = tape.value(round(tape, b, b, renumbered));
  CHECK((y.row(2) - z.row(0)).norm() < 1e-12);
  CHECK((y.row(0) - z.row(1)).norm() < 1e-12);
}
