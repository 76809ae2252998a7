#include "trainyard/yard/shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/yard/spec_numbers.hpp"

namespace trainyard {
namespace {

constexpr std::array<std::string_view, 6> kShapes{"chain", "fork-join", "layered", "random", "tree", "mesh"};

detail::SpecNumbers numbers_of_shape(std::string_view spec) {
  return {spec,
          {{"ops", 40, 1, 4'000'000},
           {"width", 4, 1, 100'000},
           {"ccr", 100, 0, 100'000},
           {"training", 0, 0, 1},
           {"seed", 1, 0, 1'000'000'000}}};
}

/// For each op, the earlier ops that it reads.
using Reads = std::vector<std::vector<std::size_t>>;

Reads reads_of(std::string_view shape, std::size_t ops, std::size_t width, Random& random) {
  Reads reads(ops);
  const auto add = [&](std::size_t op, std::size_t from) {
    if (std::ranges::find(reads[op], from) == reads[op].end()) reads[op].push_back(from);
  };
  if (shape == "fork-join") {
    for (std::size_t fork = 0, next = 1; next < ops;) {
      std::vector<std::size_t> tails;
      for (std::size_t branch = 0; branch < width && next + 1 < ops; ++branch) {
        std::size_t tail = fork;
        for (std::uint64_t left = 1 + random.below(3); left > 0 && next + 1 < ops; --left, tail = next++)
          add(next, tail);
        tails.push_back(tail);
      }
      if (tails.empty()) tails.push_back(fork);
      for (const std::size_t tail : tails) add(next, tail);
      fork = next++;
    }
    return reads;
  }
  for (std::size_t op = 1; op < ops; ++op) {
    if (shape == "chain") {
      add(op, op - 1);
    } else if (shape == "tree") {
      for (const std::size_t twice : {2 * op, 2 * op - 1})
        if (twice >= ops) add(op, twice - ops);
    } else if (shape == "mesh") {
      if (op % width > 0) add(op, op - 1);
      if (op >= width) add(op, op - width);
    } else {
      for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
        if (shape == "random") {
          add(op, random.below(op));
        } else if (const std::size_t layer = op / width; layer > 0) {
          const std::size_t from = layer > 1 && random.below(10) == 0 ? layer - 2 : layer - 1;
          add(op, from * width + random.below(width));
        }
      }
    }
  }
  return reads;
}

constexpr std::int64_t kMega = 1'000'000;

}  // namespace

bool is_shape(std::string_view spec) {
  return std::ranges::find(kShapes, spec.substr(0, spec.find(':'))) != kShapes.end();
}

Graph make_shape(std::string_view text) {
  if (!is_shape(text))
    refuse("unknown-network", fmt::format("there is no graph shape '{}'", text.substr(0, text.find(':'))),
           fmt::format("the shapes are {}", fmt::join(kShapes, ", ")));
  const detail::SpecNumbers spec = numbers_of_shape(text);
  const auto ops = static_cast<std::size_t>(spec["ops"]);
  Random random{static_cast<std::uint64_t>(spec["seed"])};
  const Reads reads = reads_of(spec.word(), ops, static_cast<std::size_t>(spec["width"]), random);
  std::vector<OpSpec> forward(ops);
  std::vector<std::vector<std::size_t>> readers(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    OpSpec& op = forward[i];
    op.name = fmt::format("f{}", i);
    if (random.below(2) == 0) {
      op.type = "MatMul";
      op.flops = Flops{1e6 * static_cast<double>(random.between(1'000, 16'000))};
      op.parameter_bytes = Bytes{kMega * random.between(1, 16)};
      op.state_bytes = Bytes{2 * op.parameter_bytes.count};
      op.bytes_accessed = op.parameter_bytes;
    } else {
      op.type = "Add";
      op.bytes_accessed = Bytes{kMega * random.between(100, 1'600)};
    }
    for (const std::size_t from : reads[i]) {
      op.inputs.push_back(fmt::format("t{}", from));
      readers[from].push_back(i);
    }
    op.outputs = {{.name = fmt::format("t{}", i), .bytes = Bytes{random.between(1, 16) * kMega * spec["ccr"] / 100}}};
  }
  GraphBuilder builder{std::string{text}};
  const bool training = spec["training"] == 1;
  for (OpSpec& op : forward) {
    if (training && op.parameter_bytes.count > 0) op.colocate = op.name;
    builder.add(op);
  }
  for (std::size_t i = ops; training && i-- > 0;) {
    OpSpec op = forward[i];
    op.name = fmt::format("b{}", i);
    op.phase = Phase::backward;
    op.flops = Flops{2 * op.flops.value};
    op.parameter_bytes = op.state_bytes = Bytes{0};
    for (const std::size_t reader : readers[i]) op.inputs.push_back(fmt::format("g{}.{}", reader, i));
    if (readers[i].empty()) op.inputs.push_back(fmt::format("t{}", i));
    op.outputs.clear();
    for (const std::size_t from : reads[i])
      op.outputs.push_back({.name = fmt::format("g{}.{}", i, from), .bytes = forward[from].outputs.front().bytes});
    builder.add(op);
  }
  return std::move(builder).build();
}

}  // namespace trainyard
