#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "profiler/torch/recipe_file.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

struct Lenet {
  TrainingStep training = training_step(make_network("lenet:batch=2"));
  Problem problem{training.graph, make_cluster(preset_cluster("2xcpu-core"))};
  Schedule schedule;

  Lenet() {  // every other op is on the second core
    schedule.placement = Placement(problem.op_count(), DeviceId{0});
    for (const OpId op : problem.ops())
      if (problem.graph().colocation_group(op).empty() && op.index() % 2 == 1) schedule.placement[op] = DeviceId{1};
  }
  nlohmann::json written() const {
    std::ostringstream out;
    write_recipe(problem, training.recipe, 7, {{"mine", schedule}}, out);
    return nlohmann::json::parse(out.str());
  }
};

}  // namespace

TEST_CASE("a recipe has each op, tensor and value of the step, and a task for each op and transfer") {
  const Lenet lenet;
  const nlohmann::json recipe = lenet.written();
  CHECK(recipe["format"] == "trainyard-recipe/1");
  CHECK(recipe["seed"] == 7);
  CHECK(recipe["ops"].size() == lenet.problem.op_count());
  CHECK(recipe["tensors"].size() == lenet.problem.graph().tensor_count());
  CHECK(recipe["values"].size() == lenet.training.recipe.model.values.size());
  const nlohmann::json& schedule = recipe["schedules"][0];
  CHECK(schedule["key"] == schedule_key(lenet.problem, lenet.schedule));
  // Tasks are ordered by dependencies: a tensor is produced on, or sent to, a device before it is read there.
  std::set<std::pair<std::size_t, std::size_t>> there;  // (tensor, device) present so far
  std::size_t ops = 0, sent = 0;
  for (const nlohmann::json& task : schedule["tasks"]) {
    if (task.is_object()) {
      ++sent;
      CHECK(there.count({task["tensor"], task["from"]}) == 1);
      there.emplace(task["tensor"], task["to"]);
      continue;
    }
    ++ops;
    const OpId op{task.get<std::size_t>()};
    const std::size_t device = lenet.schedule.placement[op].index();
    for (const TensorId tensor : lenet.problem.graph().inputs(op)) CHECK(there.count({tensor.index(), device}) == 1);
    for (const TensorId tensor : lenet.problem.graph().outputs(op)) there.emplace(tensor.index(), device);
  }
  CHECK(ops == lenet.problem.op_count());
  CHECK(sent > 0);
}

TEST_CASE("a parameter begins as the cpu backend has it: uniform, by the inputs of a unit") {
  const nlohmann::json recipe = Lenet{}.written();
  for (const nlohmann::json& value : recipe["values"])
    if (value["name"] == "conv1/conv.weight") {  // shape 6 x 1 x 5 x 5: bound sqrt(3 / 25)
      CHECK(value["shape"] == nlohmann::json{6, 1, 5, 5});
      CHECK(value["uniform"].get<double>() == doctest::Approx(0.34641016));
      return;
    }
  FAIL("no such parameter");
}

TEST_CASE("a schedule that splits ops has no recipe") {
  Lenet lenet;
  lenet.schedule.rewrites.emplace_back(Microbatch{2});
  CHECK_THROWS_WITH_AS(lenet.written(), doctest::Contains("rewrites the graph"), InputError);
}
