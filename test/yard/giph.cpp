#include "trainyard/yard/giph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/simple/simple.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/yard/yard_set.hpp"

namespace trainyard {
namespace {

const char* const kNetwork = "giph:devices=20,seed=20";

std::size_t edge_count(const Graph& graph) {
  std::size_t count = 0;
  for (const OpId op : graph.ops()) count += graph.inputs(op).size();
  return count;
}

/// Most ops on a path. Producers come before consumers in the order of ops.
std::size_t depth(const Graph& graph) {
  std::vector<std::size_t> length(graph.op_count(), 1);
  for (const OpId op : graph.ops())
    for (const TensorId tensor : graph.inputs(op))
      length[op.index()] = std::max(length[op.index()], length[graph.producer(tensor).index()] + 1);
  return *std::ranges::max_element(length);
}

TEST_CASE("a GiPH graph has sqrt(v) / alpha layers within a fifth, one op before them and one behind") {
  const ClusterSpec network = make_giph_network(kNetwork);
  for (const auto& [spec, v, alpha] : {std::tuple{"giph:v=15,alpha=10", 15, 0.1}, {"giph:v=100,alpha=50", 100, 0.5}})
    for (int seed = 0; seed < test::rounds(40); ++seed) {
      const Graph graph = make_giph_graph(std::string{spec} + ",seed=" + std::to_string(seed), network);
      const double layers = std::sqrt(v) / alpha;
      CHECK(depth(graph) >= 2 + std::ceil(0.8 * layers));
      CHECK(depth(graph) <= 2 + std::ceil(1.2 * layers));
      for (const OpId op : graph.ops()) {
        CHECK(graph.inputs(op).empty() == (op.index() == 0));
        CHECK(graph.outputs(op).empty() == (op.index() + 1 == graph.op_count()));
      }
    }
}

TEST_CASE("where all is connected each op reads all of the layers before it, and the last op one of the last layer") {
  // With v = 1 and alpha = 1 % there are n = 80 to 120 layers of one op. The first op and these have all n (n + 1) / 2
  // edges of a complete order. The last op reads the one op that nothing else reads.
  const Graph graph = make_giph_graph("giph:v=1,alpha=1,connect=100", make_giph_network(kNetwork));
  const std::size_t inner = graph.op_count() - 2;
  CHECK(inner >= 80);
  CHECK(inner <= 120);
  CHECK(edge_count(graph) == inner * (inner + 1) / 2 + 1);
  // Without connections, the graph is a chain.
  const Graph chain = make_giph_graph("giph:v=1,alpha=1,connect=0", make_giph_network(kNetwork));
  CHECK(edge_count(chain) == chain.op_count() - 1);
}

TEST_CASE("work, bytes, speeds and links are within their spreads, and in the mean what they are given as") {
  const ClusterSpec network = make_giph_network("giph:devices=100,spread-speed=50,spread-bandwidth=40,seed=3");
  double speed = 0, seconds_of_gb = 0, delay = 0;
  for (const Device& device : network.devices) {
    CHECK(device.peak.value >= 3.75e12);  // 5 TFLOP/s, less or more by a quarter
    CHECK(device.peak.value <= 6.25e12);
    speed += device.peak.value / 100;
  }
  REQUIRE(network.links.size() == 100 * 99 / 2);
  for (const Link& link : network.links) {
    CHECK(link.latency <= Nanoseconds{20'000'000});
    CHECK(1e9 / link.bandwidth.value >= 0.008 * (1 - 1e-12));  // 10 ms per GB, less or more by a fifth
    CHECK(1e9 / link.bandwidth.value <= 0.012 * (1 + 1e-12));
    seconds_of_gb += 1e9 / link.bandwidth.value / 4950;
    delay += seconds(link.latency) / 4950;
  }
  CHECK(speed == doctest::Approx(5e12).epsilon(0.05));
  CHECK(seconds_of_gb == doctest::Approx(0.01).epsilon(0.01));
  CHECK(delay == doctest::Approx(0.01).epsilon(0.05));
  const Graph graph = make_giph_graph("giph:v=400,alpha=100,connect=5,seed=3", network);
  for (const OpId op : graph.ops()) {
    CHECK(graph.flops(op).value >= 90e9);
    CHECK(graph.flops(op).value <= 110e9);
  }
  for (const TensorId tensor : graph.tensors()) {
    CHECK(graph.bytes(tensor) >= Bytes{90'000'000});
    CHECK(graph.bytes(tensor) <= Bytes{110'000'000});
    CHECK(graph.consumers(tensor).size() == 1);
  }
}

TEST_CASE("an op runs where its hardware is: on one device in five, one at least, in the time that its speed gives") {
  std::size_t able = 0, pairs = 0;
  for (int seed = 0; seed < test::rounds(60); ++seed) {
    const ClusterSpec network = make_giph_network("giph:devices=12,seed=" + std::to_string(seed));
    const Graph graph = make_giph_graph("giph:v=40,alpha=50,seed=" + std::to_string(seed), network);
    const Problem problem{graph, make_cluster(network), Costs{CostModel::roofline()}};
    for (const OpId op : problem.ops()) {
      std::size_t here = 0;
      for (const DeviceId device : problem.devices()) {
        if (!problem.can_run(op, device)) continue;
        ++here;
        CHECK(problem.duration(op, device) == time_for(graph.flops(op), network.devices[device.index()].peak));
      }
      CHECK(here >= 1);
      able += here;
      pairs += problem.device_count();
    }
  }
  // Expected share: 0.2 by `hardware`, plus 0.8^5 / 5 = 0.066 for the one type of five that a device without any is
  // given, plus the types that no device has and a random device is given.
  CHECK(static_cast<double>(able) / static_cast<double>(pairs) == doctest::Approx(0.27).epsilon(0.1));
}

TEST_CASE("transfers of a GiPH network never wait for each other") {
  const ClusterSpec network = make_giph_network("giph:devices=2,hardware=100,seed=1");
  const Graph graph = make_giph_graph("giph:v=16,alpha=100,connect=60,seed=2", network);
  const Problem problem{graph, make_cluster(network), Costs{CostModel::roofline()}};
  const Timeline timeline = simulate(problem, place_random(problem, 4));
  REQUIRE(timeline.transfers.size() > 3);
  for (const Transfer& transfer : timeline.transfers)
    CHECK(transfer.start == timeline.ops[graph.producer(transfer.tensor)].end);
}

TEST_CASE("a GiPH instance is the same for a seed and through its files, and what is no number of one is refused") {
  CHECK(make_giph_network(kNetwork) == make_giph_network(kNetwork));
  CHECK_FALSE(make_giph_network(kNetwork) == make_giph_network("giph:devices=20,seed=21"));
  const auto set = parse_yard(
      "[[grid]]\ntier = \"small\"\nfamily = \"giph\"\nmodel = \"giph:v=15,alpha=30\"\nseed = 25\ncluster = "
      "\"giph:devices=20,seed=20\"\n",
      "set.toml");
  CHECK(set.front().name == "giph-v15-alpha30-seed25.giph-devices20-seed20");
  const Problem problem = yard_problem(set.front());
  std::stringstream graph, cluster;
  write_graph(problem.graph(), graph);
  write_cluster(problem.cluster().spec(), cluster);
  const Problem read{parse_graph(graph.str(), "graph"), make_cluster(parse_cluster(cluster.str(), "cluster"))};
  CHECK(yard_hash(read) == yard_hash(problem));
  const auto code = [](const char* model, const char* network) -> std::string {
    return test::code_of([&] { make_giph_graph(model, make_giph_network(network)); });
  };
  CHECK(code("giph:v=0", kNetwork) == "range");
  CHECK(code("giph:devices=3", kNetwork) == "unknown-parameter");
  CHECK(code("giph", "giph:devices") == "spec");
  CHECK(code("giph:types=9", "giph:types=2") == "infeasible");
}

TEST_CASE("a split over 20 devices of 20 speeds, of which there are 2^20 choices, is refused; auto does without it") {
  const ClusterSpec network = make_giph_network(kNetwork);
  const Problem problem{make_giph_graph("giph:v=15,alpha=30,connect=20,seed=26", network), make_cluster(network),
                        Costs{CostModel::roofline()}};
  CHECK(test::code_of([&] { find_placer("dpl").place(problem, {}); }) == "too-many-kinds");
  const Schedule schedule =
      find_placer("auto").place(problem, {.rewrites = false, .budget = {.evaluations = 500}, .threads = 1});
  CHECK(simulate(problem, schedule).makespan <= simulate(problem, find_placer("heft").place(problem, {})).makespan);
}

}  // namespace
}  // namespace trainyard
