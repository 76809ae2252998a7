#include "trainyard/graph/builder.hpp"

#include <doctest/doctest.h>
#include <malloc.h>

#include <limits>
#include <string>
#include <utility>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;

namespace {

/// The findings of a build that must fail.
std::vector<Finding> findings_of(std::vector<OpSpec> ops) {
  GraphBuilder builder{"g"};
  for (OpSpec& op : ops) builder.add(std::move(op));
  return test::findings_of([&] { std::move(builder).build(); });
}

void check_only(const std::vector<Finding>& findings, const std::string& code, const std::string& pointer,
                const std::string& words) {
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == code);
  CHECK(findings[0].pointer == pointer);
  INFO(findings[0].message, " | ", findings[0].help);
  CHECK((findings[0].message + " | " + findings[0].help).find(words) != std::string::npos);
}

OpSpec op(std::string name, std::vector<std::string> inputs, std::vector<OutputSpec> outputs) {
  OpSpec spec{.name = std::move(name)};
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  return spec;
}

}  // namespace

TEST_CASE("a graph gives back what its ops declared") {
  GraphBuilder builder{"toy"};
  OpSpec a = op("a", {}, {{"x", Bytes{5}}, {"y", Bytes{7}, true}});
  a.type = "Conv";
  a.layer = "stem";
  a.signature = "Conv f32[1]";
  a.colocate = "w";
  a.flops = Flops{2.5e9};
  a.bytes_accessed = Bytes{11};
  a.parameter_bytes = Bytes{12};
  a.state_bytes = Bytes{13};
  a.workspace_bytes = Bytes{14};
  a.device_kinds = {"gpu", "cpu"};
  a.times = {{"gpu", Nanoseconds{3}}, {"cpu", Nanoseconds{9}}};
  builder.add(a);
  OpSpec b = op("b", {"y", "x", "y"}, {});
  b.phase = Phase::backward;
  b.after = {"a", "a"};
  builder.add(b);
  const Graph graph = std::move(builder).build();

  CHECK(graph.name() == "toy");
  CHECK(graph.op_count() == 2);
  CHECK(graph.tensor_count() == 2);
  const OpId first{0}, second{1};
  CHECK(graph.name(first) == "a");
  CHECK(graph.type(first) == "Conv");
  CHECK(graph.layer(first) == "stem");
  CHECK(graph.signature(first) == "Conv f32[1]");
  CHECK(graph.colocation_group(first) == "w");
  CHECK(graph.flops(first) == Flops{2.5e9});
  CHECK(graph.bytes_accessed(first) == Bytes{11});
  CHECK(graph.parameter_bytes(first) == Bytes{12});
  CHECK(graph.state_bytes(first) == Bytes{13});
  CHECK(graph.workspace_bytes(first) == Bytes{14});
  CHECK(graph.device_kinds(first).size() == 2);
  CHECK(graph.device_kinds(second).empty());
  REQUIRE(graph.given_times(first).size() == 2);
  CHECK(graph.given_times(first)[1] == GivenTime{"cpu", Nanoseconds{9}});
  CHECK(graph.given_times(second).empty());
  CHECK(graph.phase(second) == Phase::backward);

  // An op that names a tensor twice reads it once. Tensors are ordered by their first mention.
  REQUIRE(graph.inputs(second).size() == 2);
  CHECK(graph.name(graph.inputs(second)[0]) == "y");
  CHECK(graph.after(second).size() == 1);
  CHECK(graph.before(first).size() == 1);
  CHECK(graph.outputs(first).size() == 2);
  CHECK(graph.bytes(TensorId{1}) == Bytes{7});
  CHECK(graph.kept(TensorId{1}));
  CHECK_FALSE(graph.kept(TensorId{0}));
  CHECK(graph.producer(TensorId{1}) == first);
  REQUIRE(graph.consumers(TensorId{0}).size() == 1);
  CHECK(graph.consumers(TensorId{0})[0] == second);
  CHECK(graph.find_op("b") == second);
  CHECK_FALSE(graph.find_op("c").has_value());
  CHECK(OpIndex{graph}.find("a") == first);
  CHECK_FALSE(OpIndex{graph}.find("").has_value());
  CHECK(OpIndex{graph}.at("b") == second);
  CHECK_THROWS_WITH_AS(OpIndex{graph}.at("c"), "no op is named 'c'", InputError);
}

TEST_CASE("an op may name a tensor that a later op produces, and the order of execution takes the lowest free id") {
  GraphBuilder builder;
  builder.add(op("last", {"t"}, {}));
  builder.add(op("free", {}, {}));
  builder.add(op("first", {}, {{"t", Bytes{1}}}));
  const Graph graph = std::move(builder).build();
  // Op last (0) waits for first (2). The ready ops are free (1) and first (2), the lower goes first; then first makes
  // last ready.
  CHECK(graph.topological_order() == std::vector{OpId{1}, OpId{2}, OpId{0}});
}

TEST_CASE("each mistake in an op has its code, its place and its words") {
  check_only(findings_of({}), "empty-graph", "/ops", "at least one op");
  check_only(findings_of({op("", {}, {})}), "missing-name", "/ops/0", "no name");
  check_only(findings_of({op("a", {}, {}), op("a", {}, {})}), "duplicate-name", "/ops/1/name", "ops 0 and 1");
  check_only(findings_of({op("a", {}, {{"", Bytes{1}}})}), "missing-name", "/ops/0/outputs/0", "output 0 of op 'a'");
  check_only(findings_of({op("a", {}, {{"t", Bytes{1}}}), op("b", {}, {{"t", Bytes{1}}})}), "duplicate-name",
             "/ops/1/outputs/0/name", "tensor 't' is produced twice");
  check_only(findings_of({op("a", {}, {{"t", Bytes{-4096}}})}), "negative-bytes", "/ops/0/outputs/0/bytes",
             "got -4096");
  check_only(findings_of({op("a", {"conv1.uot"}, {{"conv1.out", Bytes{1}}})}), "unknown-tensor", "/ops/0/inputs/0",
             "did you mean 'conv1.out'?");

  OpSpec later = op("b", {}, {});
  later.after = {"aa"};
  check_only(findings_of({op("aaa", {}, {}), later}), "unknown-op", "/ops/1/after/0", "did you mean 'aaa'?");
  OpSpec flops = op("a", {}, {});
  flops.flops = Flops{-1};
  check_only(findings_of({flops}), "negative-flops", "/ops/0/flops", "got -1");
  flops.flops = Flops{std::numeric_limits<double>::quiet_NaN()};
  check_only(findings_of({flops}), "not-a-number", "/ops/0/flops", "finite");
  OpSpec state = op("a", {}, {});
  state.state_bytes = Bytes{-1};
  check_only(findings_of({state}), "negative-bytes", "/ops/0/state_bytes", "\"state_bytes\"");
  OpSpec timed = op("a", {}, {});
  timed.times = {{"gpu/0", Nanoseconds{-5}}};
  check_only(findings_of({timed}), "negative-time", "/ops/0/times_ns/gpu~10", "got -5 ns");
  timed.times = {{"gpu", Nanoseconds{std::numeric_limits<std::int64_t>::max()}}};
  check_only(findings_of({timed}), "too-large", "/ops/0/times_ns/gpu", "2^62");
  timed.times = {{"gpu", Nanoseconds{1}}, {"gpu", Nanoseconds{2}}};
  check_only(findings_of({timed}), "duplicate-name", "/ops/0/times_ns/gpu", "two times for 'gpu'");
}

TEST_CASE("a collective computes and holds nothing, comes after some op, and its members make one tensor each") {
  const CollectiveTask sum{CollectiveKind::all_reduce, Bytes{4}};
  const auto refusal = [&](const std::vector<OpSpec>& ops) {
    GraphBuilder builder{"bad"};
    for (const OpSpec& op : ops) builder.add(op);
    return test::refusal_of([&] {
      const Graph graph = std::move(builder).build();
      REQUIRE(graph.has_collectives());
      REQUIRE(graph.collective(OpId{1})->bytes == Bytes{4});
      REQUIRE(graph.member_of(OpId{2}) == OpId{1});
    });
  };
  const OpSpec make{.name = "make"}, add{.name = "add", .after = {"make"}, .collective = sum};
  const OpSpec have{.name = "have", .outputs = {{"t", Bytes{4}}}, .after = {"add"}};
  CHECK(refusal({make, add, have}) == "");
  OpSpec bad = add;
  bad.flops = Flops{1};
  CHECK(refusal({make, bad, have}) == "collective: 'add' is a collective: no device runs it or holds its data");
  bad = add;
  bad.after.clear();
  CHECK(refusal({make, bad, have}) == "collective: no op comes before the collective 'add'");
  bad = add;
  bad.collective->bytes = Bytes{-1};
  CHECK(refusal({make, bad, have}) == "negative-bytes: \"bytes\" of the collective 'add' must be 0 or more, got -1");
  bad = have;
  bad.outputs.push_back({"u", Bytes{4}});
  CHECK(refusal({make, add, bad}) == "collective: op 'have' comes after the collective 'add', but makes 2 tensors");
  bad = have;
  bad.after.push_back("more");
  CHECK(refusal({make, add, bad, {.name = "more", .after = {"make"}, .collective = sum}}) ==
        "collective: op 'have' comes after the collective 'more', but also comes after 'add'");
  CHECK(refusal({make, add, {.name = "more", .after = {"add"}, .collective = sum}}) ==
        "collective: op 'more' comes after the collective 'add', but is a collective itself");
}

TEST_CASE("bytes whose sum passes 2^62 are refused where the sum passes it, though each alone would do") {
  const Bytes half{std::int64_t{1} << 61};  // 2^61 + 2^61 = 2^62 is the maximum; one byte more is too many
  CHECK_NOTHROW([&] {
    GraphBuilder builder;
    builder.add(op("a", {}, {{"s", half}, {"t", half}}));
    std::move(builder).build();
  }());
  check_only(findings_of({op("a", {}, {{"s", half}, {"t", half}, {"u", Bytes{1}}})}), "too-large",
             "/ops/0/outputs/2/bytes", "2^62");
}

TEST_CASE("a cycle is named op by op, from its lowest") {
  check_only(findings_of({op("a", {"t"}, {{"t", Bytes{1}}})}), "cycle", "/ops/0", "op 'a' depends on itself");
  // Op free precedes the cycle b, c, d, and e follows it.
  check_only(findings_of({op("free", {}, {{"f", Bytes{1}}}), op("b", {"z", "f"}, {{"x", Bytes{1}}}),
                          op("c", {"x"}, {{"y", Bytes{1}}}), op("d", {"y"}, {{"z", Bytes{1}}}), op("e", {"z"}, {})}),
             "cycle", "/ops/1", "cycle of 3 ops, so no schedule exists: b → c → d → b");
  OpSpec a = op("a", {"t"}, {});
  OpSpec b = op("b", {}, {{"t", Bytes{1}}});
  b.after = {"a"};
  check_only(findings_of({a, b}), "cycle", "/ops/0", "a → b → a");
  std::vector<OpSpec> ring;
  for (int i = 0; i < 100; ++i)
    ring.push_back(
        op("op" + std::to_string(i), {"t" + std::to_string((i + 99) % 100)}, {{"t" + std::to_string(i), Bytes{1}}}));
  check_only(findings_of(ring), "cycle", "/ops/0", "cycle of 100 ops, so no schedule exists: op0 → op1 → ");
}

TEST_CASE("at most twenty findings are collected") {
  std::vector<OpSpec> ops;
  for (int i = 0; i < 50; ++i) ops.push_back(op("op" + std::to_string(i), {}, {{"t" + std::to_string(i), Bytes{-1}}}));
  CHECK(findings_of(ops).size() == kMostFindings);
}

TEST_CASE("a million ops, edges and names included, take under 400 bytes each") {
  const auto allocated = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  const auto ops = test::rounds<std::size_t>(1'000'000);
  const std::size_t before = allocated();
  GraphBuilder builder{"large"};
  for (std::size_t i = 0; i < ops; ++i) {
    const std::string name = "encoder.layer." + std::to_string(i);  // about 20 characters
    std::vector<std::string> inputs;
    if (i > 0) inputs.push_back("encoder.layer." + std::to_string(i - 1) + ".out");
    if (i > 64 && i % 2 == 0) inputs.push_back("encoder.layer." + std::to_string(i - 64) + ".out");
    OpSpec spec = op(name, std::move(inputs), {{name + ".out", Bytes{4096}}});
    spec.type = i % 3 ? "MatMul" : "Add";
    spec.times = i % 2 ? std::vector<GivenTime>{} : std::vector<GivenTime>{{"gpu", Nanoseconds{1000}}};
    builder.add(std::move(spec));
  }
  const Graph graph = std::move(builder).build();
  CHECK(graph.op_count() == ops);
  CHECK(graph.memory_bytes() < 400 * ops);
  if (before == 0) return;  // the address sanitizer's allocator does not count
  const std::size_t held = allocated() - before;
  CHECK(held < 400 * ops);
  // The graph's own count agrees with the allocator's within a tenth.
  CHECK(graph.memory_bytes() > held / 10 * 9);
  CHECK(graph.memory_bytes() < held / 10 * 11);
}
