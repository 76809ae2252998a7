#include "trainyard/yard/yard_set.hpp"

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

std::string code_of(const std::string& set) {
  return test::code_of([&] { parse_yard(set, "set.toml"); });
}

TEST_CASE("the Yard has 240 instances or more, each with a line of what it was when it was frozen") {
  CHECK(yard().size() >= 240);
  REQUIRE(yard().size() == yard_records().size());
  std::map<std::string, std::size_t> tiers;
  for (std::size_t i = 0; i < yard().size(); ++i) {
    CHECK(yard()[i].name == yard_records()[i].name);
    CHECK(yard()[i].tier == yard_records()[i].tier);
    ++tiers[yard()[i].tier];
    if (yard()[i].tier == "large") CHECK(yard_records()[i].ops >= 100'000);
  }
  CHECK(tiers["small"] >= 80);
  CHECK(tiers["medium"] >= 80);
  CHECK(tiers["large"] >= 8);
}

TEST_CASE("each instance of the small and medium tiers, and a large one, is what it was when it was frozen") {
  bool large = false;
  for (const YardInstance& instance : yard()) {
    if (instance.tier == "large" && std::exchange(large, true)) continue;
    CAPTURE(instance.name);
    CHECK(yard_record(instance, yard_problem(instance)) == *find_record(instance.name));
  }
}

TEST_CASE("an instance written to files is the same problem, whatever the cost model becomes") {
  for (const YardInstance& instance : yard()) {
    if (instance.tier == "large" || (instance.also.empty() && !instance.memory)) continue;
    CAPTURE(instance.name);
    const Problem problem = yard_problem(instance);
    std::stringstream graph, cluster;
    write_graph(problem.graph(), graph);
    write_cluster(problem.cluster().spec(), cluster);
    const Problem read{parse_graph(graph.str(), "graph"), make_cluster(parse_cluster(cluster.str(), "cluster"))};
    CHECK(yard_hash(read) == yard_hash(problem));
    for (const OpId op : problem.ops())
      for (const DeviceId device : problem.devices())
        REQUIRE(read.duration(op, device) == problem.duration(op, device));
  }
}

TEST_CASE("a set's grids are instances by all combinations, named by what they are made of") {
  const auto set = parse_yard(R"(
[[grid]]
tier = "small"
family = "layered"
model = "layered:ops=8"
seed = [1, 2]
cluster = "2xV100"
also = "T4"
sharing = ["serial", "fair"]
memory = 125
bandwidth = 10
)",
                              "set.toml");
  REQUIRE(set.size() == 4);
  CHECK(set[0].name == "layered-ops8-seed1.2xV100+T4.serial.memory125.bandwidth10");
  CHECK(set[3].name == "layered-ops8-seed2.2xV100+T4.fair.memory125.bandwidth10");
  const Problem problem = yard_problem(set[0]);
  CHECK(problem.cluster().device(DeviceId{0}).kind == "V100-SXM2-16GB");
  CHECK(problem.cluster().device(DeviceId{1}).kind == "T4");
  const std::string grid = "[[grid]]\ntier = \"small\"\nfamily = \"a\"\ncluster = \"2xV100\"\n";
  CHECK(code_of(grid) == "missing-key");
  CHECK(code_of(grid + "model = \"chain\"\nsharing = \"fare\"") == "unknown-word");
  CHECK(code_of(grid + "model = \"chain\"\nmemory = \"much\"") == "number");
  CHECK(code_of(grid + "model = [\"chain:ops=1\", \"chain-ops1\"]") == "duplicate-name");
  CHECK(code_of(grid + "model = \"chain\"\nlinks = 3") == "unknown-key");
  CHECK(code_of(grid + "model = [[\"chain\", \"tree\"]]") == "several-values");
  const Finding zero = test::finding_of([&] { parse_yard(grid + "model = \"chain\"\nbandwidth = 0", "set.toml"); });
  CHECK(zero.at.file == "set.toml");
  CHECK(zero.help == "write for example bandwidth = 125");
}

TEST_CASE("a set of one's own names graph and cluster files that lie beside it") {
  const auto set = parse_yard(
      "[[grid]]\ntier = \"small\"\nfamily = \"own\"\nmodel = [\"diamond.json\", \"none.json\"]\ncluster = "
      "\"two-gpus.toml\"\n",
      (test::source_dir() / "data/examples/set.toml").string());
  REQUIRE(set.size() == 2);
  CHECK(set[0].name == "diamond.two-gpus");
  const Problem problem = yard_problem(set[0]),
                read{read_graph(test::source_dir() / "data/examples/diamond.json"),
                     make_cluster(read_cluster(test::source_dir() / "data/examples/two-gpus.toml"))};
  for (const OpId op : read.ops())
    for (const DeviceId device : read.devices()) CHECK(problem.duration(op, device) == read.duration(op, device));
  CHECK_THROWS_AS(yard_problem(set[1]), InputError);
}

TEST_CASE("memory of 100 % on two devices is half of what one device needs that runs everything") {
  YardInstance instance{.name = "a", .tier = "small", .family = "chain", .model = "chain:ops=5", .cluster = "2xV100"};
  instance.memory = 100;
  const Bytes half = *yard_problem(instance).cluster().device(DeviceId{0}).memory;
  instance.memory = 200;
  CHECK(yard_problem(instance).cluster().device(DeviceId{1}).memory->count == 2 * half.count);
}

TEST_CASE(
    "where the short schedules do not fit, auto repairs one: within 1.8 times the bound in 1,000 evaluations; from "
    "those that fit alone it got to 1.9 times") {
  const Problem problem = yard_problem(*find_in_yard("resnet50.4xV100.memory110"));
  const Schedule schedule =
      find_placer("auto").place(problem, {.rewrites = false, .budget = {.evaluations = 1'000}, .threads = 1});
  const Timeline timeline = simulate(problem, schedule);
  CHECK(timeline.fits());
  CHECK(10 * timeline.makespan.count < 18 * best_lower_bound(problem).value.count);
}

TEST_CASE("on a large graph, where one device cannot hold all, auto has an answer that fits though it has no time") {
  YardInstance instance{
      .name = "a", .tier = "large", .family = "layered", .model = "layered:ops=26000,width=64", .cluster = "8xV100"};
  instance.memory = 200;  // percent of an eighth of what all ops need
  const Problem problem = yard_problem(instance);
  CHECK_FALSE(simulate(problem, find_placer("single").place(problem, {})).fits());
  const Schedule schedule =
      find_placer("auto").place(problem, {.rewrites = false, .budget = {.seconds = 0.0}, .threads = 1});
  CHECK(simulate(problem, schedule).fits());
}

}  // namespace
}  // namespace trainyard
