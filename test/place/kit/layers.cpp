#include "trainyard/place/kit/layers.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

OpSpec op(std::string name, Phase phase, std::string layer, std::vector<std::string> inputs) {
  return {.name = name,
          .phase = phase,
          .layer = std::move(layer),
          .inputs = std::move(inputs),
          .outputs = {{name + ".out", Bytes{4}}}};
}

}  // namespace

TEST_CASE("layers are numbered by their first forward ops, and backward ops join the layer that they name") {
  GraphBuilder builder;
  builder.add(op("loss", Phase::forward, "head", {"b.out"}));
  builder.add(op("b", Phase::forward, "mid", {"a.out"}));
  builder.add(op("a", Phase::forward, "stem", {}));
  builder.add(op("loss/grad", Phase::backward, "head", {"loss.out"}));
  builder.add(op("b/grad", Phase::backward, "mid", {"loss/grad.out", "a.out"}));
  const Layers layers = find_layers(std::move(builder).build());
  CHECK(layers.names == std::vector<std::string>{"stem", "mid", "head"});
  CHECK(layers.of[OpId{4}] == LayerId{1});
  CHECK(layers.ops[LayerId{1}] == std::vector<OpId>{OpId{1}, OpId{4}});
}

TEST_CASE("an op without a layer follows its producer, and a source its reader") {
  GraphBuilder builder;
  builder.add(op("input", Phase::forward, "", {}));
  builder.add(op("a", Phase::forward, "one", {"input.out"}));
  builder.add(op("b", Phase::forward, "two", {"a.out"}));
  builder.add(op("c", Phase::forward, "", {"a.out", "b.out"}));
  const Layers layers = find_layers(std::move(builder).build());
  CHECK(layers.names == std::vector<std::string>{"one", "two"});
  CHECK(layers.of[OpId{0}] == LayerId{0});
  CHECK(layers.of[OpId{3}] == LayerId{1});
}

TEST_CASE("without any layer every forward op is one, and backward ops follow the forward op they read last") {
  GraphBuilder builder;
  builder.add(op("a", Phase::forward, "", {}));
  builder.add(op("b", Phase::forward, "", {"a.out"}));
  builder.add(op("gb", Phase::backward, "", {"b.out", "a.out"}));
  builder.add(op("ga", Phase::backward, "", {"gb.out", "a.out"}));
  builder.add(op("ua", Phase::update, "", {"ga.out"}));
  const Layers layers = find_layers(std::move(builder).build());
  CHECK(layers.names == std::vector<std::string>{"a", "b"});
  CHECK(layers.of[OpId{2}] == LayerId{1});
  CHECK(layers.of[OpId{3}] == LayerId{0});
  CHECK(layers.of[OpId{4}] == LayerId{0});
}

TEST_CASE("the block of a layer is what stands before its first slash") {
  CHECK(block_of("mixed_5b/branch3x3") == "mixed_5b");
  CHECK(block_of("stem") == "stem");
}
