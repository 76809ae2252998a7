#include <doctest/doctest.h>

#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cpu/cpu_run.hpp"
#include "profiler/run/random_groups.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// Schedule with each colocation group on a random device, and random priorities or a strict order if `policy` needs
/// them.
Schedule random_schedule(const Problem& problem, Policy policy, std::uint64_t seed) {
  Schedule schedule = test::random_groups(problem, seed);
  schedule.policy = policy;
  if (policy == Policy::priority) {
    Random random{seed};
    schedule.priority = IdMap<OpId, double>(problem.op_count(), 0);
    for (const OpId op : problem.ops()) schedule.priority[op] = random.uniform();
  }
  if (policy == Policy::strict) {
    schedule.order = IdMap<DeviceId, std::vector<OpId>>(problem.device_count());
    for (const OpId op : problem.graph().topological_order()) schedule.order[schedule.placement[op]].push_back(op);
  }
  check_schedule(problem, schedule);
  return schedule;
}

}  // namespace

TEST_CASE("loss and parameters after two steps are the same bit for bit on every placement and in every order") {
  for (const std::string& network :
       {std::string{"lenet:batch=2"},
        std::string{"transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4"},
        std::string{"rnnlm:batch=2,steps=3,layers=2,hidden=8,vocabulary=20"}}) {
    CAPTURE(network);
    Model model;
    try {
      model = make_network(network);
    } catch (const InputError& error) {
      FAIL(error.what());
    }
    for (const Granularity granularity : {Granularity::op, Granularity::fine}) {
      const TrainingStep step = training_step(model, {.optimizer = Optimizer::adam, .granularity = granularity});
      const Problem problem{step.graph, make_cluster(preset_cluster("3xcpu-core"))};
      const auto backend = make_cpu_backend();
      const Schedule alone = serial_schedule(problem, DeviceId{0});
      const auto reference = backend->prepare(problem, {.recipe = &step.recipe}, alone);
      const double first = reference->step().loss;
      const double loss = reference->step().loss;
      CHECK(std::isfinite(first));
      CHECK(loss != first);  // the loss changes
      const std::uint64_t checksum = reference->parameter_checksum();
      reference->reset();
      CHECK(reference->step().loss == first);
      for (const Policy policy : {Policy::fifo, Policy::priority, Policy::strict}) {
        const Schedule schedule = random_schedule(problem, policy, 5);
        const auto run = backend->prepare(problem, {.recipe = &step.recipe}, schedule);
        CHECK(run->step().loss == first);
        const StepTrace& trace = run->step();
        CHECK(trace.loss == loss);
        CHECK(run->parameter_checksum() == checksum);
        for (const OpId op : step.graph.ops())
          for (const TensorId tensor : step.graph.inputs(op))
            CHECK(trace.ops[op].start >= trace.ops[step.graph.producer(tensor)].end);
        if (policy == Policy::strict)
          for (const DeviceId device : problem.devices()) {
            auto order = schedule.order[device];
            // Inputs are made before the step.
            std::erase_if(order, [&](OpId op) { return step.graph.type(op) == "Input"; });
            CHECK(trace.order[device] == order);
          }
      }
    }
  }
}

TEST_CASE("a schedule that splits ops is refused before it runs") {
  const Model model = make_network("lenet:batch=2");
  const TrainingStep step = training_step(model);
  const Problem problem{step.graph, make_cluster(preset_cluster("2xcpu-core"))};
  Schedule schedule = serial_schedule(problem, DeviceId{0});
  schedule.rewrites = {Replicate{.replicas = 2}};
  CHECK_THROWS_AS(make_cpu_backend()->prepare(problem, {.recipe = &step.recipe}, schedule), InputError);
}

TEST_CASE("a step whose tensors find no memory ends with that, and the workers with it") {
  if (test::is_sanitized()) return test::report_skipped("sanitizers end the program where memory is asked for in vain");
  GraphBuilder builder{"large"};
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{1000}}}, .outputs = {{"t", Bytes{std::int64_t{1} << 50}}}});
  builder.add({.name = "b", .times = {{"cpu", Nanoseconds{1000}}}, .inputs = {"t"}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("2xcpu-core"))};
  const Schedule schedule{.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}})};
  CHECK_THROWS_AS(make_cpu_run(problem, {}, schedule, {})->step(), std::bad_alloc);  // b's worker waits for t
}

TEST_CASE("on one device tensors take as much memory at once as the simulator predicts") {
  const Model model = make_network("lenet:batch=4");
  const TrainingStep step = training_step(model);
  const Problem problem{step.graph, make_cluster(preset_cluster("1xcpu-core"))};
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const auto run = make_cpu_backend()->prepare(problem, {.recipe = &step.recipe}, schedule);
  const StepTrace& trace = run->step();
  const Timeline predicted = simulate(problem, schedule);
  const auto measured = static_cast<double>(trace.peak[DeviceId{0}].count);
  const auto said = static_cast<double>(predicted.devices[DeviceId{0}].peak.count);
  CHECK(measured == doctest::Approx(said).epsilon(0.02));
}
