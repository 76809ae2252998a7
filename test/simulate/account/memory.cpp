#include <doctest/doctest.h>

#include <algorithm>

#include "simulate/small_instance.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

OpSpec op(const char* name, std::int64_t duration, std::vector<std::string> inputs, std::vector<OutputSpec> outputs,
          std::int64_t workspace = 0, std::int64_t parameters = 0) {
  OpSpec spec;
  spec.name = name;
  spec.times = {{"gpu", Nanoseconds{duration}}};
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.workspace_bytes = Bytes{workspace};
  spec.parameter_bytes = Bytes{parameters};
  return spec;
}

Problem problem_with(std::vector<OpSpec> ops, ClusterSpec cluster) {
  GraphBuilder builder{"memory"};
  for (OpSpec& spec : ops) builder.add(std::move(spec));
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

Problem three_in_a_chain(std::optional<Bytes> capacity = {}) {
  ClusterSpec cluster = linked(1);
  cluster.devices[0].memory = capacity;
  return problem_with({op("a", 1, {}, {{"ta", Bytes{4}}}, 1, 5), op("b", 1, {"ta"}, {{"tb", Bytes{3}}}, 1, 3),
                       op("c", 1, {"tb"}, {{"tc", Bytes{2}}}, 1, 2)},
                      cluster);
}

TEST_CASE("a chain of three: the peak is in the middle") {
  const Timeline timeline = simulate(three_in_a_chain(), placed({0, 0, 0}));
  // Parameters, tensors and workspace: a 10 + 4 + 1 = 15; b 10 + 4 + 3 + 1 = 18; c 10 + 3 + 2 + 1 = 16.
  CHECK(timeline.devices[DeviceId{0}].peak == Bytes{18});
  CHECK(timeline.devices[DeviceId{0}].peak_at == Nanoseconds{1});
}

TEST_CASE("a chain of three under closed intervals would hold 21") {
  const Problem problem = three_in_a_chain();
  const Timeline timeline = simulate(problem, placed({0, 0, 0}));
  const Graph& graph = problem.graph();
  Bytes peak{0};
  for (const Span& instant : timeline.ops) {
    Bytes held{0};
    for (const OpId o : graph.ops()) {
      const Span span = timeline.ops[o];
      held += problem.resident_bytes(o);
      if (span.start <= instant.start && instant.start <= span.end) held += graph.workspace_bytes(o);
      for (const TensorId tensor : graph.outputs(o)) {
        Nanoseconds until = span.end;
        for (const OpId consumer : graph.consumers(tensor)) until = std::max(until, timeline.ops[consumer].end);
        if (span.start <= instant.start && instant.start <= until) held += graph.bytes(tensor);
      }
    }
    peak = std::max(peak, held);
  }
  CHECK(peak == Bytes{21});  // when b ends and c starts: 10 + 4 + 3 + 2, and two workspaces of 1
}

TEST_CASE("a tensor is held on both sides of its transfer, there until its last consumer") {
  // a runs 0 to 2, its 4 bytes t cross 2 to 6, b runs 6 to 7, c 7 to 10. d0 holds t from 0 to 6, d1 from 2 to 10.
  const Problem problem = problem_with(
      {op("a", 2, {}, {{"t", Bytes{4}}}), op("b", 1, {"t"}, {{"u", Bytes{8}}}), op("c", 3, {"t"}, {})}, linked(2));
  const Timeline timeline = simulate(problem, placed({0, 1, 1}));
  CHECK(timeline.devices[DeviceId{0}].peak == Bytes{4});
  CHECK(timeline.devices[DeviceId{0}].peak_at == Nanoseconds{0});
  CHECK(timeline.devices[DeviceId{1}].peak == Bytes{12});  // while b runs: 4 of t, and 8 of u, which has no reader
  CHECK(timeline.devices[DeviceId{1}].peak_at == Nanoseconds{6});
}

TEST_CASE("a kept tensor is held until the end of the step") {
  for (const bool kept : {false, true}) {
    const Problem problem =
        problem_with({op("a", 1, {}, {{"t", Bytes{4}, kept}}), op("b", 1, {}, {{"u", Bytes{5}}})}, linked(1));
    const DeviceUse use = simulate(problem, placed({0, 0})).devices[DeviceId{0}];
    CHECK(use.peak == Bytes{kept ? 9 : 5});
    CHECK(use.peak_at == Nanoseconds{1});
  }
}

TEST_CASE("parameters alone can be too much, from the first moment") {
  const Timeline timeline = simulate(three_in_a_chain(Bytes{9}), placed({0, 0, 0}));
  REQUIRE(timeline.devices[DeviceId{0}].out_of_memory);
  const OutOfMemory& found = *timeline.devices[DeviceId{0}].out_of_memory;
  CHECK(found.at == Nanoseconds{0});
  CHECK(found.op.is_none());
  CHECK(!found.transfer);
  CHECK(found.over == Bytes{9});  // 18 - 9
  CHECK(!timeline.fits());
}

TEST_CASE("running out of memory names the op that crossed the line, and what is held at the peak") {
  const Timeline timeline = simulate(three_in_a_chain(Bytes{17}), placed({0, 0, 0}));
  REQUIRE(timeline.devices[DeviceId{0}].out_of_memory);
  const OutOfMemory& found = *timeline.devices[DeviceId{0}].out_of_memory;
  CHECK(found.at == Nanoseconds{1});
  CHECK(found.op == OpId{1});
  CHECK(found.over == Bytes{1});
  CHECK(found.resident == Bytes{10});
  CHECK(found.produced == Bytes{7});  // 4 + 3
  CHECK(found.arrived == Bytes{0});
  CHECK(found.workspace == Bytes{1});
  const std::vector<Holding> expected{{Holding::Kind::resident, OpId{0}, TensorId::none(), Bytes{5}},
                                      {Holding::Kind::produced, OpId{0}, TensorId{0}, Bytes{4}},
                                      {Holding::Kind::resident, OpId{1}, TensorId::none(), Bytes{3}},
                                      {Holding::Kind::produced, OpId{1}, TensorId{1}, Bytes{3}},
                                      {Holding::Kind::resident, OpId{2}, TensorId::none(), Bytes{2}}};
  CHECK(found.largest == expected);
  CHECK(simulate(three_in_a_chain(Bytes{18}), placed({0, 0, 0})).fits());  // exactly the capacity fits
}

TEST_CASE("a transfer can be what crosses the line") {
  ClusterSpec cluster = linked(2);
  cluster.devices[1].memory = Bytes{6};
  // c runs on d1 from 0 to 9 and holds 3. t starts to arrive at 2: 3 + 4 = 7.
  const Problem problem = problem_with(
      {op("a", 2, {}, {{"t", Bytes{4}}}), op("b", 1, {"t"}, {}), op("c", 9, {}, {{"u", Bytes{3}}})}, cluster);
  const Timeline timeline = simulate(problem, placed({0, 1, 1}));
  REQUIRE(timeline.devices[DeviceId{1}].out_of_memory);
  const OutOfMemory& found = *timeline.devices[DeviceId{1}].out_of_memory;
  CHECK(found.at == Nanoseconds{2});
  CHECK(found.op.is_none());
  CHECK(found.transfer == 0U);
  CHECK(found.over == Bytes{1});
  CHECK(found.arrived == Bytes{4});
  CHECK(found.produced == Bytes{3});
}

}  // namespace
}  // namespace trainyard::test
