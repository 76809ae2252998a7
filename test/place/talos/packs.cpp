#include "trainyard/place/talos/packs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Op {
  std::string name, type;
  double gpu_ms, cpu_ms;
  std::vector<std::string> after = {};
  std::string colocate = {};
};

/// Problem of these ops on a GPU and a CPU.
Problem problem_of(const std::vector<Op>& ops) {
  GraphBuilder builder{"net"};
  for (const Op& op : ops) {
    const auto ns = [](double ms) { return Nanoseconds{static_cast<std::int64_t>(ms * kMs)}; };
    builder.add({.name = op.name,
                 .type = op.type,
                 .colocate = op.colocate,
                 .times = {{"gpu", ns(op.gpu_ms)}, {"cpu", ns(op.cpu_ms)}},
                 .after = op.after});
  }
  ClusterSpec cluster = test::full_mesh(2);
  cluster.devices[0].device_class = "gpu";
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

std::vector<std::size_t> packs_of(const Problem& problem, const PackOptions& options = {}) {
  const Packs packs = pack_ops(problem, find_models(problem.graph()), op_speedups(problem), options);
  std::vector<std::size_t> numbers;
  for (const OpId op : problem.ops()) numbers.push_back(packs.of[op].index());
  return numbers;
}

using Numbers = std::vector<std::size_t>;

}  // namespace

TEST_CASE("speedups are the time on the CPU over that on the GPU") {
  const Problem problem = problem_of({{"a", "Conv", 2, 10}, {"b", "Relu", 4, 1}, {"c", "Zero", 0, 0}});
  CHECK(op_speedups(problem).values() == std::vector<double>{5, 0.25, 1});
  // (10 + 1 + 0) / (2 + 4 + 0)
  CHECK(model_speedups(problem, find_models(problem.graph()))[ModelId{0}] == doctest::Approx(11.0 / 6));
}

TEST_CASE("a pack goes on while speedups are alike and its time lasts") {
  // Speedups 4, 5, 9, 3 in a chain: 5 is within (2, 8), the range of the first; 9 is not; 3 is not within (4.5, 18).
  const std::vector<Op> chain{{"a", "", 1, 4}, {"b", "", 2, 10, {"a"}}, {"c", "", 1, 9, {"b"}}, {"d", "", 1, 3, {"c"}}};
  CHECK(packs_of(problem_of(chain)) == Numbers{0, 0, 1, 2});
  CHECK(packs_of(problem_of(chain), {.low = 0.1, .high = 10}) == Numbers{0, 0, 0, 0});
  // a and b together take 3 ms on the GPU, and so do b and c: not less than 3.
  CHECK(packs_of(problem_of(chain), {.most = Nanoseconds{3 * kMs}}) == Numbers{0, 1, 2, 3});
  // Each op alone takes less than 3 ms.
  CHECK(packs_of(problem_of(chain), {.most = Nanoseconds{3 * kMs}, .each = true}) == Numbers{0, 0, 1, 2});
  CHECK(packs_of(problem_of(chain), {.most = Nanoseconds{0}}) == Numbers{0, 1, 2, 3});
}

TEST_CASE("a fork joins its pack, and a join goes to the one that is deeper alone") {
  // a feeds b and c, whose speedups differ from a's, and both feed d. b and c are equally deep, so d begins a pack.
  const Problem diamond =
      problem_of({{"a", "", 1, 1}, {"b", "", 1, 9, {"a"}}, {"c", "", 1, 9, {"a"}}, {"d", "", 1, 9, {"b", "c"}}});
  CHECK(packs_of(diamond) == Numbers{0, 1, 2, 3});
  // With one more op before c, it is deeper than b, and d joins it.
  const Problem longer = problem_of({{"a", "", 1, 1},
                                     {"b", "", 1, 9, {"a"}},
                                     {"b2", "", 1, 3, {"a"}},
                                     {"c", "", 1, 9, {"b2"}},
                                     {"d", "", 1, 9, {"b", "c"}}});
  CHECK(packs_of(longer) == Numbers{0, 1, 2, 3, 3});
}

TEST_CASE("packs of one colocation group are on one device together") {
  const Problem problem = problem_of({{"a", "", 1, 1, {}, "w"},
                                      {"b", "", 1, 1, {"a"}, "v"},
                                      {"c", "", 1, 9, {"b"}},
                                      {"b'", "", 1, 1, {"c"}, "v"},
                                      {"a'", "", 1, 1, {"b'"}, "w"}});
  const Packs packs = pack_ops(problem, find_models(problem.graph()), op_speedups(problem));
  REQUIRE(packs.size() == 3);  // {a, b}, {c}, {b', a'}
  CHECK(packs.unit[PackId{0}] == packs.unit[PackId{2}]);
  CHECK(packs.unit[PackId{0}] != packs.unit[PackId{1}]);
  CHECK(packs.unit_groups[packs.unit[PackId{0}]].size() == 2);
}

TEST_CASE("affinity is the mean distance of speedups over the share of common op types") {
  const auto model = [](const std::string& name, std::vector<Op> ops) {
    for (Op& op : ops) op.name = name + "::" + op.name;
    return ops;
  };
  std::vector<Op> ops = model("a", {{"x", "Conv", 1, 5}, {"y", "Relu", 1, 2}});
  for (const Op& op : model("b", {{"x", "Conv", 1, 1}, {"y", "LSTM", 1, 4}, {"z", "Conv", 1, 7}})) ops.push_back(op);
  for (const Op& op : model("c", {{"x", "Other", 1, 1}})) ops.push_back(op);
  const Problem problem = problem_of(ops);
  const Models models = find_models(problem.graph());
  REQUIRE(models.names == std::vector<std::string>{"a", "b", "c"});
  const auto speedups = op_speedups(problem);
  const auto affinity = [&](std::size_t i, std::size_t j) {
    return model_affinity(problem, models, speedups, ModelId{i}, ModelId{j});
  };
  // (|5 - 1| + |2 - 4|) / 2 = 3, divided by the share of common types, 1 of 3.
  CHECK(affinity(0, 1) == doctest::Approx(9));
  CHECK(affinity(0, 1) == affinity(1, 0));
  CHECK(std::isinf(affinity(0, 2)));
}

TEST_CASE("random graphs: packs have no cycle, keep to one model, and some device can run each") {
  Random random{21};
  for (int round = 0; round < test::rounds(200); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 40});
    const Packs packs =
        pack_ops(problem, find_models(problem.graph()), op_speedups(problem), {.low = 0.01, .high = 100});
    // In an order of the packs by longest chain, every edge goes up.
    IdMap<PackId, std::size_t> depth(packs.size(), 0);
    bool changed = true;
    for (std::size_t sweep = 0; changed; ++sweep) {
      REQUIRE(sweep <= packs.size());  // a cycle would never end
      changed = false;
      for (const TensorId tensor : problem.graph().tensors())
        for (const OpId reader : problem.graph().consumers(tensor)) {
          const PackId from = packs.of[problem.graph().producer(tensor)], to = packs.of[reader];
          if (from == to || depth[to] > depth[from]) continue;
          depth[to] = depth[from] + 1;
          changed = true;
        }
    }
    for (const auto& groups : packs.unit_groups) {
      const auto runs_all = [&](DeviceId device) {
        return std::ranges::all_of(groups, [&](GroupId group) {
          return std::ranges::all_of(problem.group_ops(group), [&](OpId op) { return problem.can_run(op, device); });
        });
      };
      const auto devices = problem.devices();
      CHECK(std::any_of(devices.begin(), devices.end(), runs_all));
    }
    for (const PackId pack : packs.unit.ids())
      for (const OpId op : packs.ops[pack])
        CHECK(std::ranges::count(packs.unit_groups[packs.unit[pack]], problem.group(op)) == 1);
  }
}
