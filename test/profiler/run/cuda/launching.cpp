#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "calibrate/calibrate.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/cuda/random_groups.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr const char* kLenet = "lenet:batch=2";

struct Losses {
  double first, second;
  std::uint64_t checksum;
};

Losses two_steps(Backend& backend, const Problem& problem, const TrainingRecipe& recipe, const Schedule& schedule) {
  const auto run = backend.prepare(problem, {.recipe = &recipe}, schedule);
  const double first = run->step().loss;
  const double second = run->step().loss;
  return {first, second, run->parameter_checksum()};
}

Losses on_cpu(const Graph& graph, const TrainingRecipe& recipe) {
  const Problem problem{graph, make_cluster(preset_cluster("1xcpu-core"))};
  const auto backend = make_cpu_backend();
  return two_steps(*backend, problem, recipe, serial_schedule(problem, DeviceId{0}));
}

Profile profiled(const FakeCudaOptions& options) {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  FakeCuda fake{options};
  Profile profile;
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    profile = measure(*backend, problem, {.recipe = &step.recipe}, {serial_schedule(problem, DeviceId{0})}, {},
                      {.rounds = 2, .links = ProfileOptions::Links::none});
  }
  CHECK(fake.alive() == 0);
  return profile;
}

const OpMeasurement& op_of_type(const Profile& profile, const std::string& type) {
  const auto op = std::ranges::find(profile.ops, type, &OpMeasurement::type);
  REQUIRE(op != profile.ops.end());
  return *op;
}

}  // namespace

TEST_CASE("ops that only take time run on GPUs beside a CPU") {
  const Graph graph = training_graph(make_network(kLenet), {});
  const Problem problem{graph, make_cluster(preset_cluster("cpu-2x2080ti"))};
  const Schedule schedule = random_groups(problem, 1);
  FakeCuda fake{{.devices = 2}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const auto run = backend->prepare(problem, {}, schedule);
    run->step();
    CHECK(run->step().makespan > Nanoseconds{0});
    CHECK(fake.calls("cuStreamWriteValue32_v2") > 0);  // GPUs tell the host of what has ended
  }
  CHECK(fake.alive() == 0);
}

TEST_CASE("a step as a CUDA graph computes what it computes behind a gate, at the same times") {
  const TrainingStep step = training_step(make_network(kLenet), {.optimizer = Optimizer::adam});
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  const Schedule schedule = random_groups(problem, 3);
  Losses losses[2];
  Nanoseconds makespans[2];
  for (const bool as_graph : {false, true}) {
    FakeCuda fake{{.devices = 2}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake, .graph = as_graph});
      losses[as_graph] = two_steps(*backend, problem, step.recipe, schedule);
      const auto run = backend->prepare(problem, {.recipe = &step.recipe}, schedule);
      run->step();
      makespans[as_graph] = run->step().makespan;
      CHECK(run->step().contaminated.empty());
      CHECK((fake.calls("cudaGraphLaunch") > 0) == as_graph);
    }
    CHECK(fake.alive() == 0);
  }
  CHECK(losses[0].second == losses[1].second);
  CHECK(losses[0].checksum == losses[1].checksum);
  CHECK(std::abs((makespans[0] - makespans[1]).count) <= 20);  // events tell milliseconds as floats
}

TEST_CASE("what fails while a graph is captured leaves no capture and no graph behind") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  const Schedule schedule = random_groups(problem, 3);
  for (const std::string call :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphLaunch"}) {
    CAPTURE(call);
    FakeCuda fake{{.devices = 2, .fails = call}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake, .graph = true});
      const auto run = backend->prepare(problem, {.recipe = &step.recipe}, schedule);
      run->step();
      CHECK_THROWS_AS(run->step(), cuda::CudaError);
      CHECK(std::isfinite(run->step().loss));  // the fault was for one call
    }
    CHECK(fake.alive() == 0);
  }
  const Problem mixed{step.graph, make_cluster(preset_cluster("cpu-2x2080ti"))};
  FakeCuda fake{{.devices = 2}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake, .graph = true});
  CHECK_THROWS_AS(backend->prepare(mixed, {.recipe = &step.recipe}, random_groups(mixed, 1)), InputError);
}

TEST_CASE("a profile of GPUs has op times by events, as validation has, and beside them what CUPTI tells") {
  const Profile traced = profiled({.devices = 2, .tracing_ns = 20});  // 2 % of a kernel's 1 us
  const OpMeasurement& gemm = op_of_type(traced, "Gemm");
  CHECK(gemm.source == "event");
  CHECK(gemm.details.at("kernels").find("sgemm") != std::string::npos);
  // Traced kernels are longer, steps and op times are not.
  const Profile plain = profiled({.devices = 2, .lacks_library = "libcupti"});
  CHECK(op_of_type(plain, "Gemm").source == "event");
  CHECK(gemm.samples.kept == op_of_type(plain, "Gemm").samples.kept);
  CHECK(std::stoll(gemm.details.at("cupti_ns")) > gemm.samples.kept.front().count);
  const auto step = [](const Profile& profile) { return profile.steps.front().samples.kept.front().count; };
  CHECK(std::abs(step(traced) - step(plain)) <= 20);
  CHECK(traced.devices.front().details.at("tracing").find("0 kernels belong to no op") != std::string::npos);
  CHECK(plain.devices.front().details.at("tracing").starts_with("none: CUPTI"));
  // And it can be calibrated: what a step takes beyond its ops is the gap between them.
  CHECK(calibrate::fit_profiles(std::vector<Profile>{plain}).calibration.ops.size() > 0);
}

TEST_CASE("tracing that slows steps, loses records or is forbidden leaves the times of events") {
  const Profile slow = profiled({.devices = 2, .tracing_ns = 200});
  CHECK(op_of_type(slow, "Gemm").source == "event");
  CHECK(op_of_type(slow, "Gemm").details.count("tracing") == 1);
  CHECK(op_of_type(slow, "Gemm").details.count("cupti_ns") == 0);
  const Profile forbidden = profiled({.devices = 2, .fails = "cuptiActivityEnable", .status = 35});
  CHECK(op_of_type(forbidden, "Gemm").source == "event");
  CHECK(forbidden.devices.front().details.at("tracing").find("may not trace") != std::string::npos);
  const Profile lossy = profiled({.devices = 2, .dropped_records = 3});  // in the first, which only warms up
  CHECK(op_of_type(lossy, "Gemm").details.count("cupti_ns") == 1);
}

TEST_CASE("convolutions by cuDNN compute what the cpu computes, and without it columns and products do") {
  for (const bool there : {true, false}) {
    for (const bool deterministic : {true, false}) {
      CAPTURE(there);
      CAPTURE(deterministic);
      const TrainingStep step = training_step(make_network(kLenet));
      const Losses expected = on_cpu(step.graph, step.recipe);
      const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
      FakeCuda fake{
          {.devices = 2, .lacks_library = there ? "" : "libcudnn", .deterministic_convolutions = deterministic}};
      {
        if (!there)
          CHECK_THROWS_WITH_AS(cuda::make_cuda_backend({.libraries = &fake})
                                   ->prepare(problem, {.recipe = &step.recipe}, random_groups(problem, 3)),
                               "convolutions need cuDNN: cuDNN (libcudnn.so.9) was not found", MissingError);
        const auto backend = cuda::make_cuda_backend({.libraries = &fake, .without_cudnn = !there});
        const Losses found = two_steps(*backend, problem, step.recipe, random_groups(problem, 3));
        CHECK(found.first == doctest::Approx(expected.first).epsilon(1e-4));
        CHECK(found.second == doctest::Approx(expected.second).epsilon(1e-4));
        const bool by_cudnn = there && deterministic;
        CHECK((fake.calls("cudnnConvolutionForward") > 0) == by_cudnn);
        CHECK((fake.calls("cudnnConvolutionBackwardFilter") > 0) == by_cudnn);
        const std::string told = backend->device_details(problem.cluster(), DeviceId{0}).at("convolutions");
        CHECK(told == (there ? "cudnn" : "columns and cublas: cuDNN (libcudnn.so.9) was not found"));
      }
      CHECK(fake.alive() == 0);
    }
  }
}

TEST_CASE("ops alone on a GPU are timed hot and cold") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  FakeCuda fake{{.devices = 2}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    for (const MeasureMode mode : {MeasureMode::hot, MeasureMode::cold}) {
      const auto samples = backend->time_alone(problem, {.recipe = &step.recipe}, DeviceId{0}, mode, 2);
      const auto timed = std::count_if(problem.ops().begin(), problem.ops().end(),
                                       [&](OpId op) { return step.graph.type(op) != "Input"; });
      CHECK(samples.size() == 2 * static_cast<std::size_t>(timed));
      for (const AloneSample& sample : samples) {
        // The 50 us in which it is launched are not in it: kernels take 1 to 3 us here.
        CHECK(sample.time >= Nanoseconds{900});
        CHECK(sample.time < Nanoseconds{45'000});
      }
    }
    CHECK(fake.calls("cudaEventRecord") > 0);
  }
  CHECK(fake.alive() == 0);
}
