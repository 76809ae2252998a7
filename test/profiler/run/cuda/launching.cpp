#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/calibrate.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/cuda/kernel_bounds.hpp"
#include "profiler/run/random_groups.hpp"
#include "profiler/validate/validate.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
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
    CHECK(fake.calls("cuStreamWriteValue32_v2") > 0);  // GPUs notify the host of ends
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
  CHECK(std::abs((makespans[0] - makespans[1]).count) <= 20);  // events report milliseconds as float
}

TEST_CASE("a graph is captured once for each of two places of the weights, and once more without the times of ops") {
  const Model model = make_network(kLenet);
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam}) {
    const TrainingStep step = training_step(model, {.optimizer = optimizer});
    const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
    const Schedule schedule = random_groups(problem, 3);
    std::vector<double> losses[2];
    std::uint64_t checksums[2], again[2];
    for (const bool as_graph : {false, true}) {
      FakeCuda fake{{.devices = 2}};
      {
        const auto backend = cuda::make_cuda_backend({.libraries = &fake, .graph = as_graph});
        const auto run = backend->prepare(problem, {.recipe = &step.recipe}, schedule);
        for (int i = 0; i < 9; ++i) losses[as_graph].push_back(run->step().loss);
        CHECK(fake.calls("cudaStreamBeginCapture") == (as_graph ? 2 : 0));
        for (int i = 0; i < 4; ++i) CHECK(run->plain_step().has_value());
        CHECK(fake.calls("cudaStreamBeginCapture") == (as_graph ? 4 : 0));
        CHECK(fake.calls("cudaGraphLaunch") == (as_graph ? 12 : 0));
        checksums[as_graph] = run->parameter_checksum();
        run->reset();  // 13 steps so far: the weights are in the second place
        for (int i = 0; i < 5; ++i) run->step();
        again[as_graph] = run->parameter_checksum();
      }
      CHECK(fake.alive() == 0);
    }
    CHECK(losses[0] == losses[1]);
    CHECK(losses[0][8] < losses[0][0]);
    CHECK(checksums[0] == checksums[1]);
    CHECK(again[0] == again[1]);
    CHECK(again[0] != checksums[0]);
  }
}

TEST_CASE("a plain step takes as long as its work, whatever timing each op would add") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const auto makespans = [&](double event_ns, bool as_graph) {
    FakeCuda fake{{.devices = 1, .event_ns = event_ns}};
    const auto backend = cuda::make_cuda_backend({.libraries = &fake, .graph = as_graph});
    const auto run = backend->prepare(problem, {.recipe = &step.recipe}, schedule);
    run->step();
    const Nanoseconds timed = run->step().makespan;
    return std::pair{timed, run->plain_step().value()};
  };
  for (const bool as_graph : {false, true}) {
    const auto [timed, plain] = makespans(0, as_graph);
    CHECK(timed == plain);
    const auto [slow, still] = makespans(1'500, as_graph);
    CHECK(slow.count > timed.count + 40'000);  // two event records for each op
    CHECK(std::abs((still - plain).count) <= 1);
  }
}

TEST_CASE("a validation's error, and a profile's gaps, are of steps as they are when no op is timed") {
  const TrainingStep step = training_step(make_network(kLenet));
  Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  FakeCuda fake{{.devices = 1, .event_ns = 1'500}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake});
  const Workload workload{.recipe = &step.recipe};
  const Schedule serial = serial_schedule(problem, DeviceId{0});
  const Profile profile = measure(*backend, problem, workload, {serial}, {},
                                  {.rounds = 2, .links = ProfileOptions::Links::none, .trace = false});
  CHECK(profile.overheads.empty());
  const auto calibration = calibrate::fit_profiles(std::vector<Profile>{profile}).calibration;
  const auto known = calibrated(preset_cluster("1xV100"), calibration);
  const Problem predicted{step.graph, make_cluster(known.spec), Costs{cost_model(calibration)}};
  const auto results = validate(*backend, predicted, workload, {{"serial", serial}}, {.rounds = 4});
  CHECK(results[0].plain < results[0].measured - Nanoseconds{40'000});
  CHECK(results[0].makespan() == results[0].plain);
  CHECK(std::abs(results[0].structural_error) < 0.01);
  CHECK(std::abs(results[0].op_time_error) < 0.01);
  CHECK(std::abs(results[0].total_error) < 0.01);
}

TEST_CASE("ops are profiled beside copies, and what that adds is the interference of the calibration") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  const auto calibrated_by = [&](double slowed) {
    FakeCuda fake{{.devices = 2, .slowed_by_copies = slowed}};
    calibrate::Result result;
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      const Profile profile =
          measure(*backend, problem, {.recipe = &step.recipe}, {serial_schedule(problem, DeviceId{0})}, {},
                  {.rounds = 2, .links = ProfileOptions::Links::none, .trace = false});
      // In the fake a copy of 4 MiB takes 1 us + 1 ps a byte, in both directions: 1.6 TB/s, above a V100's 0.9.
      for (const OpMeasurement& op : profile.ops)
        CHECK((op.copied.value == 0 || op.copied.value == doctest::Approx(2 * 4'194'304 / 5'194.304e-9).epsilon(0.01)));
      result = calibrate::fit_profiles(std::vector<Profile>{profile});
    }
    CHECK(fake.alive() == 0);
    return result.calibration;
  };
  const Calibration plain = calibrated_by(0), slowed = calibrated_by(0.5);
  CHECK(plain.ops.size() == slowed.ops.size());
  for (std::size_t i = 0; i < plain.ops.size(); ++i) CHECK(plain.ops[i].mean == slowed.ops[i].mean);
  REQUIRE(slowed.interference.size() > 5);
  for (const CopySensitivity& each : plain.interference) CHECK(each.sensitivity < 0.01);
  for (const CopySensitivity& each : slowed.interference) {
    CAPTURE(each.type);
    CHECK(each.sensitivity == doctest::Approx(0.5).epsilon(0.02));  // L is 1: the copies exceed the memory's bandwidth
  }
}

TEST_CASE("copies beside a long step are larger, not more than a stream holds behind a closed gate") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  // About 70 events of 50 us make the step so long that filling it would take 700 copies of 4 MiB, 5 us each.
  FakeCuda fake{{.devices = 1, .queue = 400, .event_ns = 50'000}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const Profile profile =
        measure(*backend, problem, {.recipe = &step.recipe}, {serial_schedule(problem, DeviceId{0})}, {},
                {.rounds = 2, .links = ProfileOptions::Links::none, .trace = false});
    const auto beside = std::ranges::count_if(profile.ops, [](const OpMeasurement& op) { return op.copied.value > 0; });
    CHECK(2 * beside == std::ssize(profile.ops));
    // Whole steps beside copies are measured too, without events.
    REQUIRE(profile.steps.size() == 2);
    CHECK(profile.steps[0].copied.value == 0);
    CHECK(profile.steps[1].copied.value > 0);
    CHECK(profile.steps[1].samples.kept.front() < Nanoseconds{1'000'000});
  }
  CHECK(fake.alive() == 0);
}

TEST_CASE("a GPU with little memory left is profiled beside copies that fit, or without and says why") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  const auto profiled_with = [&](std::size_t memory) {
    // As above, copies would grow to 8 times 4 MiB in each direction.
    FakeCuda fake{{.devices = 1, .memory = memory, .queue = 400, .event_ns = 50'000}};
    Profile profile;
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      profile = measure(*backend, problem, {.recipe = &step.recipe}, {serial_schedule(problem, DeviceId{0})}, {},
                        {.rounds = 2, .links = ProfileOptions::Links::none, .trace = false});
    }
    CHECK(fake.alive() == 0);
    return profile;
  };
  const auto beside = [](const Profile& profile) {
    return std::ranges::count_if(profile.ops, [](const OpMeasurement& op) { return op.copied.value > 0; });
  };
  // The workspace of products takes 32 MiB.
  const Profile some = profiled_with(std::size_t{32 + 24} << 20), none = profiled_with(std::size_t{32 + 6} << 20);
  CHECK(some.devices.front().details.count("beside copies") == 0);
  CHECK(beside(none) == 0);
  CHECK(none.ops.size() > 10);
  CHECK(none.devices.front().details.at("beside copies").starts_with("not measured: GPU 0 has too little memory"));
}

TEST_CASE("ops on a part of a GPU are profiled beside copies of its neighbour too, which load the memory as it could") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  FakeCuda fake{{.devices = 1, .own_ns_per_byte = 0.01, .slowed_by_copies = 0.5}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const Profile profile =
        measure(*backend, problem, {.recipe = &step.recipe}, {serial_schedule(problem, DeviceId{0})}, {},
                {.rounds = 2, .links = ProfileOptions::Links::none, .trace = false});
    // Copies of 4 MiB in each direction over the host, and of 128 MiB within the GPU, read and written. A copy takes 1
    // us + 10 ps a byte.
    const double expected = 2 * 4'194'304 / 42'943.04e-9 + 2 * 134'217'728 / 1'343'177.28e-9;
    std::size_t beside = 0;
    for (const OpMeasurement& op : profile.ops) {
      if (op.copied.value == 0) continue;
      ++beside;
      CHECK(op.copied.value == doctest::Approx(expected).epsilon(0.01));
    }
    CHECK(beside > 10);
    const Calibration calibration = calibrate::fit_profiles(std::vector<Profile>{profile}).calibration;
    REQUIRE(calibration.interference.size() > 5);
    for (const CopySensitivity& each : calibration.interference)
      CHECK(each.sensitivity == doctest::Approx(0.5 / std::min(1.0, expected / 900e9)).epsilon(0.03));
  }
  CHECK(fake.alive() == 0);
}

TEST_CASE("what a run has of the GPU's memory is all that it asked for") {
  const TrainingStep step = training_step(make_network(kLenet), {.optimizer = Optimizer::adam});
  const Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  const Schedule serial = serial_schedule(problem, DeviceId{0});
  FakeCuda fake{{.devices = 1}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake});
  const auto run = backend->prepare(problem, {.recipe = &step.recipe}, serial);
  run->step();
  // Used memory: the plan's tensors, parameters twice, Adam's moments, scratch, and 32 MiB for cuBLAS.
  CHECK(run->step().allocated.count == static_cast<std::int64_t>(fake.used()));
  CHECK(fake.used() > std::size_t{32} << 20);
}

TEST_CASE("GPUs are warmed up, steps at a low clock do not count, and the profile tells the clock of its steps") {
  const TrainingStep step = training_step(make_network(kLenet));
  const Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  const Schedule serial = serial_schedule(problem, DeviceId{0});
  // Five equal clock readings end the warm-up. Then each step reads the clock; the fourth step is throttled.
  FakeCuda fake{
      {.devices = 1,
       .clocks = {345, 900, 1'500, 1'965, 1'975, 1'980, 1'980, 1'980, 1'980, 1'980, 1'980, 1'980, 1'500, 1'980}}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake});
  const auto run = backend->prepare(problem, {.recipe = &step.recipe}, serial);
  std::vector<std::string> dropped;
  run->step();
  for (int i = 0; i < 7; ++i) dropped.push_back(run->step().contaminated);
  CHECK(std::ranges::count(dropped, "clock") == 1);
  CHECK(std::ranges::count(dropped, "") == 6);
  const Details told = backend->device_details(problem.cluster(), DeviceId{0});
  CHECK(told.at("sm_clock_mhz") == "1980");
  CHECK(told.at("least_sm_clock_mhz") == "1500");
}

TEST_CASE("the noise floor of a GPU is its own: it drifts, or not, whatever the host does") {
  const Problem problem{training_graph(make_network(kLenet), {}), make_cluster(preset_cluster("1xV100"))};
  const auto floor = [&](double drift, double launch_ns) {
    // Copies of 64 MiB take 6.7 ms, so a block has three of them.
    FakeCuda fake{{.devices = 1, .own_ns_per_byte = 0.1, .launch_ns = launch_ns, .kernel_drift = drift}};
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    return backend->noise_floor(problem.cluster()).value();
  };
  CHECK(floor(0, 7'000) == 0);
  // Blocks of 100 kernels among 900, the first block being a warm-up: the medians of the others are 1.151 to 1.851 us.
  CHECK(floor(0.001, 0) == doctest::Approx(0.7 / 1.55).epsilon(0.02));
}

TEST_CASE("ops are held against what their bytes and FLOPs allow, and those far from it are found") {
  const TrainingStep step = training_step(make_network(kLenet));
  const auto bounds = [&](double bandwidth) {
    ClusterSpec spec{.name = "one", .devices = {{.name = "gpu0", .device_class = "gpu"}}};
    spec.devices[0].memory_bandwidth = BytesPerSecond{bandwidth};
    spec.devices[0].peak = FlopsPerSecond{1e18};
    const Problem problem{step.graph, make_cluster(std::move(spec))};
    FakeCuda fake{{.devices = 1}};
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    return cuda::kernel_bounds(*backend, problem, {.recipe = &step.recipe}, Nanoseconds{500});
  };
  // The fake's kernels take 1 us each. At 1 byte a nanosecond, an op of 2,500 bytes and one kernel is well below its
  // bound of 3 us. At 1,000 bytes a nanosecond the bound is about 500 ns of launch, which one kernel exceeds twofold.
  std::size_t ours = 0, over = 0;
  const auto slow = bounds(1e9), fast = bounds(1e12);
  for (std::size_t i = 0; i < fast.size(); ++i) {
    const double bytes = static_cast<double>(step.graph.bytes_accessed(fast[i].op).count);
    CHECK(slow[i].bound.count == 500 + static_cast<std::int64_t>(bytes));
    ours += fast[i].ours;
    over += fast[i].ours && fast[i].ratio() > cuda::kMostOfBound;
    if (fast[i].time == Nanoseconds{1'000})
      CHECK(fast[i].ratio() == doctest::Approx(1'000 / (500 + bytes / 1e3)).epsilon(0.01));
  }
  CHECK(ours > 10);
  CHECK(over > 0);  // ops of several kernels
  CHECK(std::ranges::none_of(
      fast, [&](const cuda::KernelBound& each) { return each.ours && step.graph.type(each.op).starts_with("Conv"); }));
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
      CHECK(std::isfinite(run->step().loss));  // the fault affects one call only
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
  // Tracing lengthens kernels, but not steps and op times.
  const Profile plain = profiled({.devices = 2, .lacks_library = "libcupti"});
  CHECK(op_of_type(plain, "Gemm").source == "event");
  CHECK(gemm.samples.kept == op_of_type(plain, "Gemm").samples.kept);
  CHECK(std::stoll(gemm.details.at("cupti_ns")) > gemm.samples.kept.front().count);
  const auto step = [](const Profile& profile) { return profile.steps.front().samples.kept.front().count; };
  CHECK(std::abs(step(traced) - step(plain)) <= 20);
  CHECK(traced.devices.front().details.at("tracing").find("0 kernels belong to no op") != std::string::npos);
  CHECK(plain.devices.front().details.at("tracing").starts_with("none: CUPTI"));
  // The profile can be calibrated: the gap is a step's time beyond its ops.
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
  const Profile failing = profiled({.devices = 2, .fails = "cuptiActivityEnable", .status = 999});
  CHECK(op_of_type(failing, "Gemm").source == "event");
  CHECK(failing.devices.front().details.at("tracing").starts_with("none: CUPTI cannot trace (cuptiActivityEnable"));
  const Profile lossy = profiled({.devices = 2, .dropped_records = 3});  // lost in the first traced step, a warm-up
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

TEST_CASE("average pools and softmax without cuDNN are refused, unless kernels of our own are asked for") {
  zoo::LayerBuilder net{"averages"};
  net.at("layer");
  const ValueId x = net.add(net.input("x", {2, 3, 4, 4}), net.parameter("p", {2, 3, 4, 4}));
  const Model averages =
      std::move(net).finish({net.gemm(net.flatten(net.average_pool(x, {.kernel = 2, .stride = 2})), 5)});
  const Model transformer = make_network("transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4");
  for (const Model& model : {averages, transformer}) {
    CAPTURE(model.name);
    const TrainingStep step = training_step(model);
    const Losses expected = on_cpu(step.graph, step.recipe);
    const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
    const Schedule schedule = random_groups(problem, 3);
    FakeCuda fake{{.devices = 2, .lacks_library = "libcudnn"}};
    CHECK_THROWS_WITH_AS(
        cuda::make_cuda_backend({.libraries = &fake})->prepare(problem, {.recipe = &step.recipe}, schedule),
        (std::string{model.name == "averages" ? "average pools need" : "softmax needs"} +
         " cuDNN: cuDNN (libcudnn.so.9) was not found")
            .c_str(),
        MissingError);
    const auto backend = cuda::make_cuda_backend({.libraries = &fake, .without_cudnn = true});
    const Losses found = two_steps(*backend, problem, step.recipe, schedule);
    CHECK(found.first == doctest::Approx(expected.first).epsilon(1e-4));
    CHECK(found.second == doctest::Approx(expected.second).epsilon(1e-4));
    CHECK(fake.calls("cudnnCreate") == 0);
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
        // The 50 us of its launch are excluded: kernels here take 1 to 3 us.
        CHECK(sample.time >= Nanoseconds{900});
        CHECK(sample.time < Nanoseconds{45'000});
      }
    }
    CHECK(fake.calls("cudaEventRecord") > 0);
  }
  CHECK(fake.alive() == 0);
}
