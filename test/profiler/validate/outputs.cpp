#include "profiler/validate/outputs.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "profiler/measure/measure.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// A run whose parameters all start at 1 and grow by `change` a step.
class FakeRun : public PreparedRun {
 public:
  FakeRun(const Model& model, float change, double loss) : model_(model), change_(change) { trace_.loss = loss; }
  const StepTrace& step() override {
    now_ += change_;
    return trace_;
  }
  void reset() override { now_ = 1; }
  std::uint64_t parameter_checksum() const override { return std::bit_cast<std::uint32_t>(now_); }
  std::vector<float> parameter(ValueId id) const override {
    return std::vector<float>(static_cast<std::size_t>(elements(model_.values[id].shape)), now_);
  }

 private:
  const Model& model_;
  float change_, now_ = 1;
  StepTrace trace_;
};

class FakeBackend : public Backend {
 public:
  float share = 1;
  double loss = 2;
  std::string name() const override { return "fake"; }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                       const Schedule& schedule) override {
    bool one = true;
    for (const OpId op : problem.ops()) one = one && schedule.placement[op] == schedule.placement[OpId{0}];
    return std::make_unique<FakeRun>(workload.recipe->model, one ? 0.01F : 0.01F * share, one ? 2 : loss);
  }
};

bool agrees(FakeBackend& backend, const std::string& cluster, DeviceId other) {
  const TrainingStep step = training_step(make_network("lenet:batch=1"), {.optimizer = Optimizer::adam});
  const Problem problem{step.graph, make_cluster(preset_cluster(cluster))};
  const Workload workload{.recipe = &step.recipe};
  Schedule schedule;
  schedule.placement = Placement(problem.op_count(), DeviceId{1});
  schedule.placement[OpId{0}] = other;
  const auto run = backend.prepare(problem, workload, schedule);
  const double loss = run->step().loss;
  return OutputCheck{backend, problem, workload}.agrees(schedule, *run, loss);
}

}  // namespace

TEST_CASE("devices of one class must compute the same bits") {
  FakeBackend backend;
  CHECK(agrees(backend, "2xV100", DeviceId{0}));
  backend.share = 1.001F;
  CHECK_FALSE(agrees(backend, "2xV100", DeviceId{0}));
}

TEST_CASE("a CPU and a GPU may round differently, and no more") {
  FakeBackend backend;
  backend.share = 1.04F, backend.loss = 2.01;
  CHECK(agrees(backend, "cpu-2x2080ti", DeviceId{0}));
  backend.share = 1.06F;
  CHECK_FALSE(agrees(backend, "cpu-2x2080ti", DeviceId{0}));
  backend.share = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(agrees(backend, "cpu-2x2080ti", DeviceId{0}));
  backend.share = 1, backend.loss = 2.03;
  CHECK_FALSE(agrees(backend, "cpu-2x2080ti", DeviceId{0}));
}
