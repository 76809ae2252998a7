#include "trainyard/place/talos/talos.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/bound/completion.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/completion_evaluator.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/simulate/completion.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

struct Row {
  std::string name;
  double cpu, gpu;
  std::vector<std::string> after = {};
};

Graph graph_of(const std::vector<Row>& rows) {
  GraphBuilder builder{"m"};
  const auto ns = [](double ms) { return Nanoseconds{static_cast<std::int64_t>(ms * kMillisecond)}; };
  for (const Row& row : rows) {
    OpSpec op{.name = row.name,
              .times = {{"cpu", ns(row.cpu)}, {"gpu", ns(row.gpu)}},
              .outputs = {{row.name + ":0", Bytes{0}}}};
    for (const std::string& earlier : row.after) op.inputs.push_back(earlier + ":0");
    builder.add(op);
  }
  return std::move(builder).build();
}

/// Two models on a GPU and a CPU.
Problem together(const Graph& a, const Graph& b) {
  const std::array<NamedGraph, 2> models{{{"A", &a}, {"B", &b}}};
  ClusterSpec cluster = test::full_mesh(2);
  cluster.devices[0].device_class = "gpu";
  return Problem{union_graph(models), make_cluster(std::move(cluster))};
}

/// Fig. 1 of the paper.
Problem figure_1() {
  return together(graph_of({{"op1", 5, 1}, {"op2", 1, 3, {"op1"}}, {"op3", 3, 2, {"op2"}}}),
                  graph_of({{"op4", 1.5, 1.5}, {"op5", 3, 1}, {"op6", 2, 4, {"op4", "op5"}}}));
}

double total_ms(const Problem& problem, const Schedule& schedule) {
  const Models models = find_models(problem.graph());
  return static_cast<double>(completion_outcome(problem, models, schedule).total.count) / kMillisecond;
}

}  // namespace

TEST_CASE("whole models: the GPU is for the larger speedup, also where it is the slower device in total") {
  // Speedups 2 / 1 and 10 / 20; all ops together take 12 on the CPU, 21 on the GPU.
  const Problem problem = together(graph_of({{"small", 2, 1}}), graph_of({{"large", 10, 20}}));
  CHECK(find_placer("aswm").place(problem, {}).placement.values() == std::vector{DeviceId{0}, DeviceId{1}});
}

TEST_CASE("Fig. 1: whole models take 12.5, first come first served 11.5, and Talos 9.0") {
  const Problem problem = figure_1();
  // A on the GPU: 1 + 3 + 2; B on the CPU: 1.5 + 3 + 2.
  CHECK(total_ms(problem, find_placer("aswm").place(problem, {})) == 12.5);
  // GPU op1 [0, 1], op5 [1, 2], op6 [2, 6]; CPU op4 [0, 1.5], op2 [1.5, 2.5], op3 [2.5, 5.5]: 5.5 + 6.
  CHECK(total_ms(problem, find_placer("tsam").place(problem, {})) == 11.5);
  const Schedule talos = find_placer("talos").place(problem, {});
  CHECK(total_ms(problem, talos) == 9.0);
  // GPU op1 [0, 1], op5 [1, 2], op3 [2.5, 4.5]; CPU op4 [0, 1.5], op2 [1.5, 2.5], op6 [2.5, 4.5].
  const DeviceId gpu{0}, cpu{1};
  CHECK(talos.placement.values() == std::vector{gpu, cpu, gpu, cpu, gpu, cpu});
  const std::vector<double> starts{0, 1.5, 2.5, 0, 1, 2.5};
  for (std::size_t i = 0; i < starts.size(); ++i)
    CHECK(static_cast<double>(talos.plan->start[OpId{i}].count) / kMillisecond == starts[i]);
}

TEST_CASE("Fig. 1: no placement and order has less than 9.0") {
  const Problem problem = figure_1();
  double least = 1e9;
  // Every placement with every priority order of the six ops.
  std::vector<double> priority{0, 1, 2, 3, 4, 5};
  do {
    for (std::uint32_t bits = 0; bits < 64; ++bits) {
      Schedule schedule{.placement = Placement(6), .policy = Policy::priority};
      for (std::size_t i = 0; i < 6; ++i) {
        schedule.placement[OpId{i}] = DeviceId{bits >> i & 1};
        schedule.priority.push_back(priority[i]);
      }
      least = std::min(least, total_ms(problem, schedule));
    }
  } while (std::ranges::next_permutation(priority).found);
  CHECK(least == 9.0);
  // A: 1 + 1 + 2 = 4; B: 1.5 + 2 = 3.5; work of 4 and 4.5 on two devices.
  CHECK(completion_bound(problem, find_models(problem.graph())) ==
        Nanoseconds{static_cast<std::int64_t>(7.75 * kMillisecond)});
}

TEST_CASE("a union of models names everything by its model, and is taken apart by these names") {
  const Graph a = graph_of({{"op1", 5, 1}, {"op2", 1, 3, {"op1"}}});
  const std::array<NamedGraph, 3> three{{{"x", &a}, {"y::z", &a}, {"x", &a}}};
  const Graph graph = union_graph(three);
  CHECK(graph.name() == "x+y:z+x#2");
  CHECK(graph.op_count() == 6);
  const Models models = find_models(graph);
  CHECK(models.names == std::vector<std::string>{"x", "y:z", "x#2"});
  CHECK(models.of.values() == std::vector{ModelId{0}, ModelId{0}, ModelId{1}, ModelId{1}, ModelId{2}, ModelId{2}});
  const std::array<NamedGraph, 1> one{{{"x", &a}}};
  CHECK(union_graph(one) == a);
  CHECK(find_models(a).names == std::vector<std::string>{"m"});
}

TEST_CASE("random problems: Talos and its baselines give valid schedules that repeat, above the bound") {
  Random random{31};
  for (int round = 0; round < test::rounds(120); ++round) {
    const Problem first = test::random_problem(random, {.most_ops = 15});
    const Problem second = test::random_problem(random, {.most_ops = 15, .memory = false});
    Problem problem = first;
    if (round % 2 == 0 && second.device_count() == first.device_count()) {
      // Two models on the cluster of the first one. The second may have ops for devices that are not in it.
      try {
        const std::array<NamedGraph, 2> both{{{"a", &first.graph()}, {"b", &second.graph()}}};
        problem = Problem{union_graph(both), first.cluster()};
      } catch (const InputError&) {
      }
    }
    const Models models = find_models(problem.graph());
    for (const std::string name : {"talos", "aswm", "tsam"}) {
      CAPTURE(name);
      for (const bool other : {false, true}) {
        PlaceOptions options;
        if (other && name == "talos") options.parameters = {{"cost", "literal"}, {"together", "pairs"}, {"tv", "0"}};
        const Schedule schedule = find_placer(name).place(problem, options);
        REQUIRE_NOTHROW(check_schedule(problem, schedule));
        CHECK(schedule == find_placer(name).place(problem, options));
        CHECK(simulate(problem, schedule).makespan == test::naive_simulate(problem, schedule).makespan);
        CHECK(completion_outcome(problem, models, schedule).total >= completion_bound(problem, models));
      }
    }
  }
}

TEST_CASE("pairs run one after the other, the shorter first") {
  const Graph quick = graph_of({{"q", 10, 1}}), slow = graph_of({{"s", 40, 20}});
  const std::array<NamedGraph, 2> models{{{"slow", &slow}, {"quick", &quick}}};
  ClusterSpec cluster = test::full_mesh(2);
  cluster.devices[0].device_class = "gpu";
  const Problem problem{union_graph(models), make_cluster(std::move(cluster))};
  // |2 - 10| = 8 and one common type: a pair, which starts at once. quick takes the GPU first, and slow waits: 1 + 21.
  CHECK(total_ms(problem, find_placer("talos").place(problem, {.parameters = {{"together", "pairs"}}})) == 22);
}
