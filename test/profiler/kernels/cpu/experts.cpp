#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/kernels/cpu/arrays.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/model/shape_inference.hpp"

using namespace trainyard;

namespace {

struct Numbers {
  Shape shape;
  std::vector<float> at;
};
using Attributes = std::map<std::string, Attribute>;

Numbers random_numbers(Shape shape, Random& random) {
  Numbers numbers{std::move(shape), {}};
  numbers.at.resize(static_cast<std::size_t>(elements(numbers.shape)));
  for (float& x : numbers.at) x = static_cast<float>(random.normal());
  return numbers;
}

/// One operator on arrays: computes its outputs and, for each input, the gradient given that of the first output.
struct Operator {
  std::string type;
  std::vector<Numbers> in;
  Attributes attributes = {};
  std::size_t outputs = 1;
  std::vector<Numbers> out = {}, dx = {};

  const Numbers& forward() {
    run({});
    return out[0];
  }
  void backward(const Numbers& dy) { run(dy); }

 private:
  void run(const Numbers& dy) {
    Model model;
    Node node{.name = "n", .type = type, .inputs = {}, .outputs = {}, .attributes = attributes};
    for (const Numbers& each : in) {
      node.inputs.push_back(ValueId{model.values.size()});
      Value value{.name = "x", .shape = each.shape, .shape_known = true, .role = Value::Role::input};
      if (type == "TopK" && node.inputs.size() == 2) {
        value.integers = {static_cast<std::int64_t>(each.at[0])};
        value.contents_known = true;
      }
      model.values.push_back(std::move(value));
    }
    for (std::size_t i = 0; i < outputs; ++i) {
      node.outputs.push_back(ValueId{model.values.size()});
      model.values.push_back({.name = "y"});
    }
    model.nodes.push_back(node);
    infer_shapes(model);
    cpu::OpArrays arrays{.model = model, .node = model.nodes[NodeId{0}], .in = {}, .out = {}, .dy = {}, .dx = {}};
    for (Numbers& each : in) arrays.in.push_back({each.at.data(), &each.shape});
    out.resize(outputs);
    for (std::size_t i = 0; i < outputs; ++i) {
      out[i].shape = model.values[node.outputs[i]].shape;
      out[i].at.resize(static_cast<std::size_t>(elements(out[i].shape)));
      arrays.out.push_back({out[i].at.data(), &out[i].shape});
    }
    cpu::Scratch::reset();
    if (dy.at.empty()) return cpu::find_kernels(type)->forward(arrays);
    Numbers given = dy;
    arrays.dy.assign(outputs, {});
    arrays.dy[0] = {given.at.data(), &given.shape};
    dx = in;
    for (Numbers& each : dx) arrays.dx.push_back({each.at.data(), &each.shape});
    if (type == "TopK" || type == "ExpertDispatch") arrays.dx[1] = {};
    if (type == "ExpertCombine") arrays.dx[2] = {};
    cpu::find_kernels(type)->backward(arrays);
  }
};

/// Part `i` of `parts` equal parts along the first dimension.
Numbers part(const Numbers& of, std::size_t i, std::size_t parts) {
  Numbers result{of.shape, {}};
  result.shape[0] /= static_cast<std::int64_t>(parts);
  const auto size = static_cast<std::ptrdiff_t>(of.at.size() / parts);
  result.at.assign(of.at.begin() + size * static_cast<std::ptrdiff_t>(i),
                   of.at.begin() + size * static_cast<std::ptrdiff_t>(i + 1));
  return result;
}

/// All-to-all before the experts: the rows [experts, rows, h] of each rank are sent to the ranks that hold the experts,
/// where they are [experts / ranks, ranks x rows, h].
std::vector<Numbers> to_experts(const std::vector<Numbers>& ranks) {
  const std::size_t n = ranks.size();
  std::vector<Numbers> result(n);
  const Shape& shape = ranks[0].shape;
  const auto size = static_cast<std::ptrdiff_t>(shape[1] * shape[2]);
  const std::int64_t own = shape[0] / static_cast<std::int64_t>(n);
  for (std::size_t to = 0; to < n; ++to) {
    result[to].shape = {own, shape[1] * static_cast<std::int64_t>(n), shape[2]};
    for (std::int64_t expert = 0; expert < own; ++expert)
      for (const Numbers& from : ranks) {
        const auto first = from.at.begin() + (static_cast<std::ptrdiff_t>(to) * own + expert) * size;
        result[to].at.insert(result[to].at.end(), first, first + size);
      }
  }
  return result;
}
/// All-to-all after the experts: the inverse of to_experts.
std::vector<Numbers> from_experts(const std::vector<Numbers>& ranks) {
  const std::size_t n = ranks.size();
  std::vector<Numbers> result(n);
  const Shape& shape = ranks[0].shape;
  const std::int64_t rows = shape[1] / static_cast<std::int64_t>(n);
  const auto size = static_cast<std::ptrdiff_t>(rows * shape[2]);
  for (std::size_t to = 0; to < n; ++to) {
    result[to].shape = {shape[0] * static_cast<std::int64_t>(n), rows, shape[2]};
    for (const Numbers& from : ranks)
      for (std::int64_t expert = 0; expert < shape[0]; ++expert) {
        const auto first =
            from.at.begin() + (expert * static_cast<std::ptrdiff_t>(n) + static_cast<std::ptrdiff_t>(to)) * size;
        result[to].at.insert(result[to].at.end(), first, first + size);
      }
  }
  return result;
}

constexpr std::int64_t kExperts = 8, kTokens = 6, kWidth = 5, kInner = 7;

struct Weights {
  Numbers router, up, down;
};

/// The outputs and gradients of one device or one rank.
struct Result {
  Numbers rows, y, dx, drouter, dup, ddown;
};

std::vector<Result> compute(const std::vector<Numbers>& x, const std::vector<Numbers>& dy, const Weights& weights) {
  const std::size_t n = x.size();
  // A capacity that drops tokens: 6 tokens x 2 choices / 8 experts is 1.5, and an expert takes 1.
  const Attributes sizes{{"experts", kExperts}, {"capacity", std::int64_t{1}}};
  std::vector<Result> results(n);
  std::vector<Operator> logits, tops, shares, slots, dispatch, up, act, down, combine;
  std::vector<Numbers> rows, made, back, gradients;
  for (std::size_t r = 0; r < n; ++r) {
    logits.push_back({"Linear", {x[r], weights.router}});
    tops.push_back({"TopK", {logits[r].forward(), {{1}, {2}}}, {}, 2});
    tops[r].forward();
    shares.push_back({"Softmax", {tops[r].out[0]}});
    slots.push_back({"ExpertSlots", {tops[r].out[1]}, sizes});
    dispatch.push_back({"ExpertDispatch", {x[r], slots[r].forward()}, sizes});
    rows.push_back(dispatch[r].forward());
  }
  rows = to_experts(rows);
  for (std::size_t r = 0; r < n; ++r) {
    results[r].rows = rows[r];
    up.push_back({"MatMul", {rows[r], part(weights.up, r, n)}});
    act.push_back({"Swish", {up[r].forward()}});
    down.push_back({"MatMul", {act[r].forward(), part(weights.down, r, n)}});
    made.push_back(down[r].forward());
  }
  made = from_experts(made);
  for (std::size_t r = 0; r < n; ++r) {
    combine.push_back({"ExpertCombine", {made[r], shares[r].forward(), slots[r].out[0]}});
    results[r].y = combine[r].forward();
    combine[r].backward(dy[r]);
    back.push_back(combine[r].dx[0]);
  }
  back = to_experts(back);
  for (std::size_t r = 0; r < n; ++r) {
    down[r].backward(back[r]);
    act[r].backward(down[r].dx[0]);
    up[r].backward(act[r].dx[0]);
    results[r].dup = up[r].dx[1], results[r].ddown = down[r].dx[1];
    gradients.push_back(up[r].dx[0]);
  }
  gradients = from_experts(gradients);
  for (std::size_t r = 0; r < n; ++r) {
    dispatch[r].backward(gradients[r]);
    shares[r].backward(combine[r].dx[1]);
    tops[r].backward(shares[r].dx[0]);
    logits[r].backward(tops[r].dx[0]);
    results[r].dx = dispatch[r].dx[0];
    for (std::size_t i = 0; i < results[r].dx.at.size(); ++i) results[r].dx.at[i] += logits[r].dx[0].at[i];
    results[r].drouter = logits[r].dx[1];
  }
  return results;
}

void check_near(const Numbers& got, const Numbers& expected) {
  CHECK(got.shape == expected.shape);
  REQUIRE(got.at.size() == expected.at.size());
  for (std::size_t i = 0; i < got.at.size(); ++i)
    CHECK(got.at[i] == doctest::Approx(static_cast<double>(expected.at[i])).epsilon(1e-4));
}

}  // namespace

TEST_CASE("two and four ranks that hold different experts and exchange tokens compute what one device computes") {
  Random random{3};
  const Numbers x = random_numbers({4, kTokens, kWidth}, random);
  const Numbers dy = random_numbers({4, kTokens, kWidth}, random);
  const Numbers router = random_numbers({kWidth, kExperts}, random);
  const Numbers up = random_numbers({kExperts, kWidth, kInner}, random);
  const Numbers down = random_numbers({kExperts, kInner, kWidth}, random);
  const Weights weights{router, up, down};
  const Result whole = compute({x}, {dy}, weights).front();
  for (const std::size_t n : {std::size_t{2}, std::size_t{4}}) {
    CAPTURE(n);
    std::vector<Numbers> samples, gradients;
    for (std::size_t r = 0; r < n; ++r) {
      samples.push_back(part(x, r, n));
      gradients.push_back(part(dy, r, n));
    }
    const std::vector<Result> ranks = compute(samples, gradients, weights);
    Numbers drouter = whole.drouter;
    std::fill(drouter.at.begin(), drouter.at.end(), 0.0F);
    for (std::size_t r = 0; r < n; ++r) {
      CHECK(ranks[r].rows.at == part(whole.rows, r, n).at);  // equal tokens in equal order
      check_near(ranks[r].y, part(whole.y, r, n));
      check_near(ranks[r].dx, part(whole.dx, r, n));
      check_near(ranks[r].dup, part(whole.dup, r, n));  // complete: no sum over ranks is left
      check_near(ranks[r].ddown, part(whole.ddown, r, n));
      for (std::size_t i = 0; i < drouter.at.size(); ++i) drouter.at[i] += ranks[r].drouter.at[i];
    }
    check_near(drouter, whole.drouter);
  }
}
