#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "place/learned/placeto_by_tape.hpp"
#include "place/learned/tasks.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/doppler_definitions.hpp"
#include "trainyard/place/learned/giph_definitions.hpp"
#include "trainyard/place/learned/hierarchical_definitions.hpp"
#include "trainyard/place/learned/placement_walk.hpp"
#include "trainyard/place/learned/rnn_definitions.hpp"

using namespace trainyard;
using namespace trainyard::learned;

namespace {

/// Checks the gradients of -sum of weight log p(action) - bonus entropy by finite differences. The run is drawn again
/// from the same seed; the changes of the weights are too small to change its actions.
void check_gradients(PolicyNetwork<double>& network, const PlacementTask& task) {
  Random first{3};
  const auto trial = network.run(task, &first);
  std::vector<double> weights;
  for (std::size_t i = 0; i < trial->actions.size(); ++i) weights.push_back(std::sin(static_cast<double>(i) + 1));
  constexpr double kBonus = 0.2, kStep = 1e-6;
  auto gradients = learn::zero_gradients(network.parameters);
  network.add_gradients(*trial, task, weights, kBonus, gradients);
  const auto loss = [&] {
    Random again{3};
    const auto run = network.run(task, &again);
    REQUIRE(run->actions == trial->actions);
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      sum -= weights[i] * std::log(run->probabilities[i][run->actions[i]]) +
             kBonus * learn::entropy(run->probabilities[i]);
    return sum;
  };
  Random pick{4};
  double largest = 0;
  for (std::size_t p = 0; p < network.parameters.size(); ++p)
    for (int i = 0; i < 6; ++i) {
      auto& values = network.parameters[p];
      double& x = values.data()[pick.below(static_cast<std::uint64_t>(values.size()))];
      const double gradient = gradients[p].data()[&x - values.data()];
      const double before = x;
      x = before + kStep;
      const double above = loss();
      x = before - kStep;
      const double below = loss();
      x = before;
      const double expected = (above - below) / (2 * kStep);
      CAPTURE(network.parameters.name(p));
      CHECK(std::abs(gradient - expected) < 1e-6 * std::max(1.0, std::abs(expected)));
      largest = std::max(largest, std::abs(expected));
    }
  CHECK(largest > 1e-2);
}

/// Moves all parameters away from zero, so that no ReLU is at its corner.
template <class Network>
void shift(Network& network) {
  Random random{5};
  for (std::size_t p = 0; p < network.parameters.size(); ++p)
    for (learn::Index i = 0; i < network.parameters[p].size(); ++i)
      network.parameters[p].data()[i] += 0.4 * (random.uniform() - 0.4);
}

Problem some_problem() {
  Random random{11};
  for (;;) {
    Problem problem = test::random_problem(random, {.most_ops = 14, .plain_cluster = true});
    if (problem.op_count() > 11 && problem.device_count() == 3) return problem;
  }
}

}  // namespace

TEST_CASE("the gradients of whole episodes agree with finite differences, for every network") {
  const PlacementTask task{some_problem()};
  for (const Embedding embedding : {Embedding::messages, Embedding::aggregator, Embedding::partitioner}) {
    for (const bool look_ahead : {true, false}) {
      PlacetoNetwork<double> network{{.devices = 3,
                                      .width = 5,
                                      .rounds = 3,
                                      .pool = 4,
                                      .hidden = 6,
                                      .embedding = embedding,
                                      .look_ahead = look_ahead},
                                     1};
      shift(network);
      check_gradients(network, task);
    }
  }
  RnnNetwork<double> rnn{3, 1, 6};
  shift(rnn);
  check_gradients(rnn, task);
  HierarchicalNetwork<double> hierarchical{3, 1, 4, 6};
  shift(hierarchical);
  check_gradients(hierarchical, task);
  DopplerNetwork<double> doppler{{.width = 6, .rounds = 3}, 1};
  shift(doppler);
  check_gradients(doppler, task);
  GiphNetwork<double> giph{{.width = 5}, 1};
  shift(giph);
  check_gradients(giph, task);
}

TEST_CASE("Placeto's gradients are those of the tape") {
  Random random{22};
  for (int round = 0; round < 20; ++round) {
    const PlacementTask task{test::random_problem(random, {.most_ops = 30})};
    for (const Embedding embedding : {Embedding::messages, Embedding::aggregator, Embedding::partitioner}) {
      const PlacetoNetwork<double> network{{.devices = task.devices(), .embedding = embedding}, 7};
      const auto trial = network.run(task, &random);
      std::vector<double> weights;
      for (std::size_t i = 0; i < trial->actions.size(); ++i) weights.push_back(random.normal());
      auto own = learn::zero_gradients(network.parameters), tape = own;
      network.add_gradients(*trial, task, weights, 0.1, own);
      learn::Tape<double> whole{network.parameters};
      const learn::Variable logits = placeto_logits(whole, network, *trial);
      whole.backward(logits, trainyard::learned::detail::choice_gradients<double>(*trial, weights, 0.1, task.devices()),
                     tape);
      for (std::size_t p = 0; p < own.size(); ++p) {
        CAPTURE(network.parameters.name(p));
        CHECK((own[p] - tape[p]).cwiseAbs().maxCoeff() <= 1e-10 * (1 + tape[p].cwiseAbs().maxCoeff()));
      }
    }
  }
}

TEST_CASE("what is computed anew from step to step is what one pass over the whole episode computes") {
  Random random{21};
  for (int round = 0; round < 20; ++round) {
    const PlacementTask task{test::random_problem(random, {.most_ops = 30})};
    PlacetoNetwork<double> network{{.devices = task.devices()}, static_cast<std::uint64_t>(round)};
    const auto trial = network.run(task, &random);
    learn::Tape<double> tape{network.parameters};
    const learn::Matrix<double> logits = tape.value(placeto_logits(tape, network, *trial));
    for (std::size_t step = 0; step < trial->actions.size(); ++step) {
      const auto p = learn::probabilities<double>(logits.row(learn::index(step)), task.allowed(trial->order[step]));
      for (std::size_t device = 0; device < p.size(); ++device)
        CHECK(p[device] == doctest::Approx(trial->probabilities[step][device]).epsilon(1e-9));
    }
  }
}

TEST_CASE("a new policy of Placeto keeps most of the start placement; one that looks ahead, where no move saves much") {
  Random random{23};
  for (int round = 0; round < 10; ++round) {
    const PlacementTask task{test::random_problem(random, {.most_ops = 30})};
    const auto seed = static_cast<std::uint64_t>(round);
    const PlacetoNetwork<float> blind{{.devices = task.devices(), .look_ahead = false}, seed};
    CHECK(blind.run(task, nullptr)->devices == task.start);
    const PlacetoNetwork<float> network{{.devices = task.devices()}, seed};
    const auto trial = network.run(task, nullptr);
    CHECK(trial->costs.back() <= 1.01 * task.start_cost);
    PlacementWalk walk{task, task.start};
    for (std::size_t step = 0; step < trial->order.size(); ++step) {
      const std::uint32_t group = trial->order[step];
      double most = 0;
      for (std::uint32_t device = 0; device < task.devices(); ++device)
        if (task.allowed(group)[device]) most = std::max(most, walk.gain(group, device));
      const bool moves = trial->actions[step] != task.start[group];
      if (moves) CHECK(most > 0);
      if (most > 0.01) CHECK(moves);
      walk.move(group, trial->actions[step]);
    }
  }
}

TEST_CASE("decisions depend on the graph, not on the numbers of its ops") {
  // One graph, with its ops declared in two orders and visited in the same order by name.
  const auto diamond = [](const std::vector<int>& declared) {
    GraphBuilder builder;
    const std::vector<std::vector<std::string>> inputs{{}, {"0"}, {"0"}, {"1", "2"}, {}};
    for (const int i : declared)
      builder.add({.name = "op" + std::to_string(i),
                   .times = {{"cpu", Nanoseconds{10 * (i + 1)}}},
                   .inputs = inputs[static_cast<std::size_t>(i)],
                   .outputs = {{std::to_string(i), Bytes{5 * (i + 2)}}}});
    return Problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  };
  PlacementTask first{diamond({0, 1, 2, 3, 4})}, second{diamond({4, 2, 3, 1, 0})};
  // The default start deals ops out by their numbers, so another start is set.
  for (PlacementTask* task : {&first, &second}) task->start.assign(task->size(), 0);
  // Without look-ahead: simulated gains would break ties by op number.
  const PlacetoNetwork<double> network{{.devices = 2, .look_ahead = false}, 3};
  const auto order_of = [](const PlacementTask& task) {
    std::vector<std::uint32_t> order;
    for (int i = 0; i < 5; ++i)
      order.push_back(task.groups.of[*task.problem.graph().find_op("op" + std::to_string(i))]);
    return order;
  };
  const auto a = network.run(first, nullptr, order_of(first)), b = network.run(second, nullptr, order_of(second));
  REQUIRE(a->probabilities.size() == b->probabilities.size());
  for (std::size_t step = 0; step < a->probabilities.size(); ++step)
    CHECK(a->probabilities[step][0] == doctest::Approx(b->probabilities[step][0]).epsilon(1e-9));
}

TEST_CASE("the gain that a policy sees is what the move saves") {
  Random random{32};
  for (int round = 0; round < test::rounds(30); ++round) {
    const PlacementTask task{test::random_problem(random, {.most_ops = 20})};
    PlacementCosts evaluator{task};
    PlacementWalk walk{task, task.start};
    Devices now = task.start;
    for (std::uint32_t group = 0; group < task.size(); ++group) {
      const double before = evaluator.cost(now);
      for (std::uint32_t device = 0; device < task.devices(); ++device) {
        if (!task.allowed(group)[device]) continue;
        Devices moved = now;
        moved[group] = device;
        const double saved = 1 - evaluator.cost(moved) / before;
        if (saved > 0 || !task.may_exceed)
          CHECK(walk.gain(group, device) ==
                doctest::Approx(std::max(saved, -PlacementWalk::kMostLoss)).epsilon(1e-3).scale(1e-3));
        else
          CHECK(walk.gain(group, device) <= 0);
      }
      do now[group] = static_cast<std::uint32_t>(random.below(task.devices()));
      while (!task.allowed(group)[now[group]]);
      walk.move(group, now[group]);
      CHECK(walk.cost() == evaluator.cost(now));
    }
  }
}

TEST_CASE("the rewards of the steps add up to what the episode saved") {
  Random random{31};
  for (int round = 0; round < test::rounds(30); ++round) {
    const PlacementTask task{test::random_problem(random, {.most_ops = 20})};
    const PlacetoNetwork<float> network{{.devices = task.devices()}, 1};
    const auto trial = network.run(task, &random);
    PlacementCosts evaluator{task};
    const std::vector<double> costs = evaluator.costs_on_the_way(task.start, trial->devices, trial->order);
    CHECK(costs.size() == trial->order.size() + 1);
    CHECK(costs.front() == task.start_cost);
    CHECK(costs.back() == evaluator.cost(trial->devices));
    CHECK(trial->costs == costs);  // as the policy saw them
  }
}
