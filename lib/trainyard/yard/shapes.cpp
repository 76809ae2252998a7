#include "trainyard/yard/shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard {
namespace {

constexpr std::array<std::string_view, 6> kShapes{"chain", "fork-join", "layered", "random", "tree", "mesh"};

/// A number of a shape.
struct ShapeNumber {
  std::string_view name;
  std::int64_t value, least, most;
};

/// The numbers of a spec.
class ShapeSpec {
 public:
  explicit ShapeSpec(std::string_view spec) : shape(spec.substr(0, spec.find(':'))) {
    for (std::size_t at = shape.size(); at < spec.size();) {
      const std::size_t end = std::min(spec.find(',', at + 1), spec.size());
      read(spec.substr(at + 1, end - at - 1));
      at = end;
    }
  }

  std::int64_t operator[](std::string_view name) const {
    return std::ranges::find(numbers_, name, &ShapeNumber::name)->value;
  }

  std::string_view shape;

 private:
  void read(std::string_view pair) {
    const std::size_t equals = pair.find('=');
    const auto number = std::ranges::find(numbers_, pair.substr(0, equals), &ShapeNumber::name);
    if (equals == std::string_view::npos || number == numbers_.end())
      throw InputError(Finding{.code = equals == std::string_view::npos ? "spec" : "unknown-parameter",
                               .message = fmt::format("'{}' is no number of the shape {}", pair, shape),
                               .help = "as in 'layered:ops=40,width=6,ccr=100,training=1,seed=3'"});
    const std::string_view text = pair.substr(equals + 1);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number->value);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || number->value < number->least ||
        number->value > number->most)
      throw InputError(Finding{.code = "range",
                               .message = fmt::format("{}={} is out of range", number->name, text),
                               .help = fmt::format("a whole number from {} to {}", number->least, number->most)});
  }

  std::array<ShapeNumber, 5> numbers_{ShapeNumber{"ops", 40, 1, 4'000'000},
                                      {"width", 4, 1, 100'000},
                                      {"ccr", 100, 0, 100'000},
                                      {"training", 0, 0, 1},
                                      {"seed", 1, 0, 1'000'000'000}};
};

/// For each op the ops that it reads, all of them before it.
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
    throw InputError(Finding{.code = "unknown-network",
                             .message = fmt::format("there is no shape '{}'", text.substr(0, text.find(':'))),
                             .help = fmt::format("shapes are {}", fmt::join(kShapes, ", "))});
  const ShapeSpec spec{text};
  const auto ops = static_cast<std::size_t>(spec["ops"]);
  Random random{static_cast<std::uint64_t>(spec["seed"])};
  const Reads reads = reads_of(spec.shape, ops, static_cast<std::size_t>(spec["width"]), random);
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
