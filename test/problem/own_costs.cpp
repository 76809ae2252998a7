// Problems with cost types that the library does not know.
#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"

using namespace trainyard;

namespace {

/// Two ops with a tensor of 10 bytes between them.
Graph pair_graph() {
  GraphBuilder builder{"pair"};
  builder.add({.name = "a", .flops = Flops{6}, .outputs = {{"t", Bytes{10}}}});
  builder.add({.name = "b", .flops = Flops{9}, .inputs = {"t"}});
  return std::move(builder).build();
}

/// Two GPUs and a CPU with links of 1 byte a nanosecond. Latencies: 4 ns from d0 to d1, 5 ns from d0 to the host.
Cluster two_and_a_host() {
  ClusterSpec spec{.name = "c",
                   .devices = {{.name = "d0", .kind = "", .device_class = "gpu"},
                               {.name = "d1", .kind = "", .device_class = "gpu"},
                               {.name = "host", .kind = "", .device_class = "cpu"}}};
  spec.links = {
      {.name = "l1", .from = "d0", .to = "d1", .bandwidth = BytesPerSecond{1e9}, .latency = Nanoseconds{4}},
      {.name = "l2", .from = "d0", .to = "host", .bandwidth = BytesPerSecond{1e9}, .latency = Nanoseconds{5}}};
  return make_cluster(std::move(spec));
}

/// Costs of 1 ns a FLOP on d0 and 2 ns on d1; ops cannot run on the host. Transfers take 1 ns + 3 ns a byte.
struct MyCosts {
  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const {
    if (device.device_class == "cpu") return std::nullopt;
    const auto flops = static_cast<std::int64_t>(graph.flops(op).value);
    if (device.name == "d0") return OpCost{Nanoseconds{flops}, {"my-model", Evidence::measured}};
    return OpCost{Nanoseconds{2 * flops}, {"my-guess", Evidence::estimated}};
  }
  Nanoseconds latency(const RouteClass&) const { return Nanoseconds{1}; }
  Nanoseconds byte_time(Bytes bytes, const RouteClass&) const { return Nanoseconds{3 * bytes.count}; }
};

constexpr OpId kA{0}, kB{1};
constexpr DeviceId kD0{0}, kD1{1}, kHost{2};

void check_times(const Problem& problem) {
  CHECK(problem.duration(kA, kD0) == Nanoseconds{6});
  CHECK(problem.duration(kB, kD1) == Nanoseconds{18});  // 2 ns x 9 FLOP
  CHECK_FALSE(problem.can_run(kA, kHost));
  CHECK(problem.transfer_time(TensorId{0}, kD0, kD1) == Nanoseconds{31});  // 1 + 3 x 10
  CHECK(problem.cost_source(kA, kD0) == CostSource{"my-model", Evidence::measured});
  CHECK(problem.cost_source(kB, kD1) == CostSource{"my-guess", Evidence::estimated});
  CHECK(problem.transfer_evidence(TensorId{0}, kD0, kD1) == Evidence::given);
}

Finding wrong(Costs costs) {
  return test::finding_of([&] { Problem{pair_graph(), two_and_a_host(), std::move(costs)}; });
}

}  // namespace

TEST_CASE("a problem takes the times, the devices and the sources of costs of any type") {
  check_times(Problem{pair_graph(), two_and_a_host(), MyCosts{}});
}

TEST_CASE("a problem made of another keeps its costs: for another graph, machine, or copies of ops") {
  const Problem problem{pair_graph(), two_and_a_host(), MyCosts{}};
  check_times(problem.with_graph(pair_graph()));
  check_times(problem.with_machine(two_and_a_host(), problem.costs()));
  std::optional<Problem> original = problem;
  const Problem copy{pair_graph(), *original, IdMap<OpId, OpId>{std::vector{kA, kB}}};
  original.reset();
  check_times(copy);
}

TEST_CASE("a lambda is costs, and transfers then take the cluster's times") {
  const Problem problem{pair_graph(), two_and_a_host(), [](const Graph& graph, OpId op, const Device&) {
                          return Nanoseconds{static_cast<std::int64_t>(100 * graph.flops(op).value)};
                        }};
  CHECK(problem.duration(kB, kHost) == Nanoseconds{900});
  CHECK(problem.transfer_time(TensorId{0}, kD0, kD1) == Nanoseconds{14});    // latency 4 + 10 bytes
  CHECK(problem.transfer_time(TensorId{0}, kD1, kHost) == Nanoseconds{19});  // latency 4 + 5, + 10 bytes
  CHECK(problem.cost_source(kA, kD0).name == "own");
}

TEST_CASE("costs are asked once for each op and device, or for one of the devices that are alike") {
  struct Counting {
    std::multiset<std::string>* asked;
    bool by_class = false;
    Nanoseconds op_cost(const Graph& graph, OpId op, const Device& device) const {
      asked->insert(std::string{graph.name(op)} + device.name);
      return Nanoseconds{1};
    }
    bool alike(const Device&, const Device&) const { return by_class; }
  };
  std::multiset<std::string> asked;
  CHECK(Problem{pair_graph(), two_and_a_host(), Counting{&asked}}.column_count() == 3);
  CHECK(asked == std::multiset<std::string>{"ad0", "ad1", "ahost", "bd0", "bd1", "bhost"});
  asked.clear();
  // d0 and d1 have one class and are alike, so d0 stands for both. The host has another class.
  CHECK(Problem{pair_graph(), two_and_a_host(), Counting{&asked, true}}.column_count() == 2);
  CHECK(asked == std::multiset<std::string>{"ad0", "ahost", "bd0", "bhost"});
}

TEST_CASE("costs are asked once for ops that are alike, whose type and signature are equal and which give no times") {
  struct Counting {
    std::multiset<std::string>* asked;
    std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const {
      asked->insert(std::string{graph.name(op)} + device.name);
      if (device.name == "host") return std::nullopt;
      return OpCost{Nanoseconds{static_cast<std::int64_t>(graph.flops(op).value)}, {"flops", Evidence::given}};
    }
    double copy_sensitivity(const Graph& graph, OpId op, const Device&) const { return graph.flops(op).value / 1'000; }
    bool alike(const Graph& graph, OpId a, OpId b) const { return graph.flops(a) == graph.flops(b); }
  };
  GraphBuilder builder{"five"};
  const auto add = [&](const char* name, const char* type, double flops) {
    builder.add({.name = name, .type = type, .signature = "[1]", .flops = Flops{flops}});
  };
  add("a", "Conv", 3);
  add("b", "Conv", 3);  // as a
  add("c", "Conv", 4);
  add("d", "Gemm", 4);
  builder.add({.name = "e", .type = "Gemm", .signature = "[1]", .flops = Flops{4}, .times = {{"d0", Nanoseconds{9}}}});
  add("f", "Gemm", 4);  // as d, but e was the last of this type and signature
  std::multiset<std::string> asked;
  const Problem problem{std::move(builder).build(), two_and_a_host(), Counting{&asked}};
  CHECK(asked == std::multiset<std::string>{"ad0", "ad1", "ahost", "cd0", "cd1", "chost", "dd0", "dd1", "dhost", "ed1",
                                            "ehost", "fd0", "fd1", "fhost"});
  const OpId b{1};
  CHECK(problem.duration(b, kD1) == Nanoseconds{3});
  CHECK(problem.cost_source(b, kD1).name == "flops");
  CHECK(!problem.can_run(b, kHost));
  CHECK(problem.copy_sensitivity(b, kD0) == problem.copy_sensitivity(OpId{0}, kD0));
  CHECK(problem.copy_sensitivity(b, kD0) == 3);  // thousandths
}

TEST_CASE("costs that no device can pay, fail, or contradict themselves are refused") {
  const auto nowhere = [](const Graph&, OpId, const Device&) { return std::optional<OpCost>{}; };
  CHECK(wrong(nowhere).code == "no-device");
  CHECK(wrong(nowhere).message == "no device of cluster 'c' can run op 'a': its costs exclude every device");
  CHECK(wrong(nowhere).help == "let the costs give a time on one of the devices");
  const auto negative = [](const Graph& graph, OpId op, const Device&) {
    return Nanoseconds{graph.name(op) == "b" ? -1 : 1};
  };
  CHECK(wrong(negative).message == "the costs of op 'b' on device 'd0': a time of -1 ns is negative");
  const auto contrary = [](const Graph& graph, OpId op, const Device&) {
    return OpCost{Nanoseconds{1}, {"mine", graph.name(op) == "a" ? Evidence::measured : Evidence::estimated}};
  };
  CHECK(wrong(contrary).message == "the costs call the times of 'mine' both measured and estimated");
  struct LateBytes {
    Nanoseconds op_cost(const Graph&, OpId, const Device&) const { return Nanoseconds{1}; }
    Nanoseconds byte_time(Bytes, const RouteClass&) const { return Nanoseconds{-5}; }
  };
  CHECK(wrong(LateBytes{}).message.starts_with("the costs of 10 B on a route of"));
}

TEST_CASE("a group can run where all of its ops can") {
  const Problem problem{pair_graph(), two_and_a_host(), MyCosts{}};
  std::vector<GroupId> groups(problem.groups().begin(), problem.groups().end());
  CHECK(groups == std::vector{GroupId{0}, GroupId{1}});
  CHECK(problem.can_run(GroupId{1}, kD1));
  CHECK_FALSE(problem.can_run(GroupId{1}, kHost));
}
