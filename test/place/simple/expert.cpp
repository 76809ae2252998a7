#include "trainyard/place/simple/expert.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

/// An op of `time` ns on any CPU.
OpSpec op(std::string name, std::string layer, std::int64_t time, std::vector<std::string> after,
          std::string type = "Conv") {
  return {.name = std::move(name),
          .type = std::move(type),
          .layer = std::move(layer),
          .times = {{"cpu", Nanoseconds{time}}},
          .after = std::move(after)};
}

std::map<std::string, std::size_t> expert_devices(std::vector<OpSpec> ops, ClusterSpec cluster) {
  GraphBuilder builder;
  for (OpSpec& spec : ops) builder.add(std::move(spec));
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  const Schedule schedule = place_expert(problem);
  check_schedule(problem, schedule);
  std::map<std::string, std::size_t> devices;
  for (const OpId id : problem.ops()) devices[std::string{problem.graph().name(id)}] = schedule.placement[id].index();
  return devices;
}

}  // namespace

TEST_CASE("a chain of layers is cut into contiguous runs of equal time, backward ops with their layer") {
  std::vector<OpSpec> ops{op("a", "l0", 4, {}),    op("b", "l1", 3, {"a"}),  op("c", "l2", 2, {"b"}),
                          op("d", "l3", 5, {"c"}), op("gd", "l3", 5, {"d"}), op("ga", "l0", 4, {"gd"})};
  ops[4].phase = ops[5].phase = Phase::backward;
  // two runs: 8 + 3 | 2 + 10
  const auto devices = expert_devices(ops, test::full_mesh(2));
  CHECK(devices == std::map<std::string, std::size_t>{{"a", 0}, {"b", 0}, {"c", 1}, {"d", 1}, {"gd", 1}, {"ga", 0}});
}

TEST_CASE("parallel branches of a block go apart, the longest first, and the trunk stays on the first device") {
  const auto devices =
      expert_devices({op("stem", "stem", 9, {}), op("x", "m/b1", 2, {"stem"}), op("y", "m/b2", 7, {"stem"}),
                      op("z", "m/b3", 4, {"stem"}), op("join", "m", 1, {"x", "y", "z"})},
                     test::full_mesh(2));
  // y 7 on 0, z 4 on 1, x 2 on 1
  CHECK(devices == std::map<std::string, std::size_t>{{"stem", 0}, {"x", 1}, {"y", 0}, {"z", 1}, {"join", 0}});
}

TEST_CASE("scopes that follow each other are layers, not branches") {
  // "enc/0" -> "enc/1" by a tensor
  std::vector<OpSpec> ops{op("a", "enc/0", 5, {}), op("b", "enc/1", 5, {})};
  ops[0].outputs = {{"t", Bytes{1}}};
  ops[1].inputs = {"t"};
  CHECK(expert_devices(ops, test::full_mesh(2)) == std::map<std::string, std::size_t>{{"a", 0}, {"b", 1}});
}

TEST_CASE("LSTM layers go apart, embeddings with the first, attention and output with the last") {
  const auto devices =
      expert_devices({op("e", "embedding", 1, {}, "Gather"), op("l0", "lstm0", 9, {"e"}, "LSTM"),
                      op("l1", "lstm1", 9, {"l0"}, "LSTM"), op("l2", "lstm2", 9, {"l1"}, "LSTM"),
                      op("at", "attention", 1, {"l2"}, "MatMul"), op("out", "head", 1, {"at"}, "Linear")},
                     test::full_mesh(3));
  CHECK(devices ==
        std::map<std::string, std::size_t>{{"e", 0}, {"l0", 0}, {"l1", 1}, {"l2", 2}, {"at", 2}, {"out", 2}});
}

TEST_CASE("with fewer devices than LSTM layers, encoder and decoder layers of one height share a device") {
  std::vector<OpSpec> ops{op("ee", "encoder_embedding", 1, {}),
                          op("e0", "encoder0", 5, {"ee"}, "LSTM"),
                          op("e1", "encoder1", 5, {"e0"}, "LSTM"),
                          op("de", "decoder_embedding", 1, {"ee"}),
                          op("d0", "decoder0", 5, {"e1", "de"}, "LSTM"),
                          op("d1", "decoder1", 5, {"d0"}, "LSTM"),
                          op("soft", "head", 1, {"d1"})};
  CHECK(expert_devices(ops, test::full_mesh(2)) ==
        std::map<std::string, std::size_t>{
            {"ee", 0}, {"e0", 0}, {"e1", 1}, {"de", 0}, {"d0", 0}, {"d1", 1}, {"soft", 1}});
}

TEST_CASE("what does not fit by branches is cut into runs that fit") {
  std::vector<OpSpec> ops{op("stem", "stem", 1, {}), op("x", "m/b1", 1, {"stem"}), op("y", "m/b2", 1, {"stem"}),
                          op("join", "m", 1, {"x", "y"})};
  ops[0].parameter_bytes = ops[1].parameter_bytes = Bytes{6};
  ops[3].parameter_bytes = Bytes{6};
  ClusterSpec cluster = test::full_mesh(2);
  for (Device& device : cluster.devices) device.memory = Bytes{12};
  // by branches: stem, x, join = 18 on device 0; in runs: stem, x | y, join
  CHECK(expert_devices(ops, cluster) ==
        std::map<std::string, std::size_t>{{"stem", 0}, {"x", 0}, {"y", 1}, {"join", 1}});
}

TEST_CASE("a device four times slower gets nothing but what it alone can run") {
  std::vector<OpSpec> ops{op("a", "l0", 5, {}), op("b", "l1", 5, {"a"}), op("c", "l2", 1, {"b"})};
  for (OpSpec& spec : ops) spec.times.push_back({"p2", Nanoseconds{50}});
  ops[2].times = {{"p2", Nanoseconds{1}}};
  CHECK(expert_devices(ops, test::full_mesh(3)) == std::map<std::string, std::size_t>{{"a", 0}, {"b", 1}, {"c", 2}});
}
