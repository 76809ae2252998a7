#include "trainyard/io/frameworks/device_map.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "fuzz/toy_problem.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::contains;

namespace {

Problem problem_of(const std::string& network, const std::string& cluster) {
  return Problem{training_graph(make_network(network)), make_cluster(preset_cluster(cluster))};
}

std::string written(const DeviceMap& map) {
  std::ostringstream out;
  write_device_map(map, out);
  return out.str();
}

std::string refusal(const std::string& text, const Problem& problem) {
  return test::refusal_text([&] { parse_schedule_or_map(text, "map.json", problem); });
}

}  // namespace

TEST_CASE("a placement by module comes back from its device map, and takes the same time") {
  const Problem problem = problem_of("resnet18:batch=8", "2xV100");
  const Schedule schedule = parse_schedule_or_map(
      R"({"stem": 0, "layer1": 0, "layer2": "cuda:0", "layer2.1": 1, "layer3": 1, "layer4": 1, "head": 1})", "map.json",
      problem);
  const SaidDeviceMap said = device_map_of(problem, schedule);
  CHECK(said.lost.empty());
  // The shortest keys: the blocks of layer2 are on both devices, so each has a key. Modules without parameters have
  // keys too.
  CHECK(said.map == parse_device_map(R"({"stem": 0, "layer1": 0, "layer2.0": 0, "layer2.1": 1, "layer3": 1, "layer4": 1,
                                         "head": 1, "loss": 1})",
                                     "map.json"));
  const Schedule again = parse_schedule_or_map(written(said.map), "map.json", problem);
  CHECK(again.placement == schedule.placement);
  CHECK(simulate(problem, again) == simulate(problem, schedule));
}

TEST_CASE("the longest key decides, and what no key covers without parameters is where the layer before it is") {
  const Problem problem = problem_of("resnet18:batch=8", "2xV100");
  const Schedule all = parse_schedule_or_map(R"({"": 1})", "map.json", problem);
  for (const OpId op : problem.ops()) CHECK(all.placement[op] == DeviceId{1});
  const Schedule two =
      parse_schedule_or_map(R"({"": 0, "head": 1, "stem.conv": 1})", "map.json", problem);  // an unknown module
  CHECK(two.notes ==
        std::vector<std::string>{"the device map names modules that 'resnet18:batch=8' does not have: stem.conv"});
  for (const OpId op : problem.ops())
    CHECK(two.placement[op] == DeviceId{problem.graph().layer(op) == "head" ? 1U : 0U});
}

TEST_CASE("a device map names what it cannot say of a schedule") {
  const Problem problem = problem_of("resnet18:batch=8", "2xV100");
  const Schedule heft = find_placer("heft").place(problem, {});
  const SaidDeviceMap said = device_map_of(scheduled_problem(problem, heft), heft);
  REQUIRE(said.lost.size() == 2);
  CHECK(contains(said.lost[0], "which are not on the main device of their module"));
  CHECK(contains(said.lost[1], "the order of the ops on a device"));

  const Schedule pipeline = find_placer("pipeline").place(problem, {});
  const SaidDeviceMap stages = device_map_of(scheduled_problem(problem, pipeline), pipeline);
  CHECK(contains(stages.lost.front(), "microbatches"));

  const Schedule replicas = find_placer("data-parallel").place(problem, {});
  CHECK_THROWS_WITH_AS(device_map_of(scheduled_problem(problem, replicas), replicas),
                       "the schedule has 2 replicas of the network, but a device map describes only one", InputError);
  ClusterSpec mixed = preset_cluster("2xV100");
  mixed.devices[1].device_class = "npu";
  const Problem other{problem.graph(), make_cluster(mixed)};
  const Schedule there{.placement = Placement(other.op_count(), DeviceId{1})};
  CHECK(device_map_of(other, there).lost.back() == "device 'gpu1', which is not a GPU: a device map calls it \"cpu\"");

  const Schedule toy{.placement = Placement(3, DeviceId{0})};
  CHECK(contains(device_map_of(fuzz::toy_problem(), toy).lost.front(), "the graph names no layers"));
}

TEST_CASE("wrong device maps are refused at the key, with the remedy") {
  const Problem problem = problem_of("lenet:batch=8", "2xV100");
  const std::string beyond = refusal("{\"\": 0,\n \"fc\": 2}", problem);
  CHECK(contains(beyond, "map.json:2:8"));
  CHECK(contains(beyond, "module 'fc' is on device 2, but cluster '2xV100' has only 2"));
  CHECK(contains(refusal(R"({"": "cpu"})", problem), "cluster '2xV100' has no CPU"));
  CHECK(contains(refusal(R"({"": "disk"})", problem), "module '' is on 'disk', which is not a device"));
  CHECK(contains(refusal(R"({"": 0, "a": [1]})", problem), "module 'a' has an array as its device"));
  CHECK(contains(refusal(R"({"": 0, "a": -1})", problem), "give the number of a GPU from 0"));
  CHECK(contains(refusal(R"({"a": 0, "a": 1})", problem), "map.json:1:10"));
  CHECK(contains(refusal(R"({"no.such.module": 0})", problem), "covers 0 of"));
  CHECK(contains(refusal(R"({"a": 0)", problem), "map.json:1:"));
  CHECK(contains(refusal("{\"a\xff\": 0}", problem), "UTF-8"));
  CHECK_THROWS_AS(parse_device_map("{}", "map.json"), InputError);
  // A JSON text that is no device map is read as a schedule file.
  CHECK(contains(refusal(R"({"graph": "x"})", problem), "format"));
}
