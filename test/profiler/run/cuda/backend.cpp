#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "profiler/kernels/cpu/program.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/random_groups.hpp"
#include "profiler/validate/validate.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Compares the losses of two steps on the cpu backend, on one fake GPU and on several.
void compare(const std::string& network, const TrainingOptions& options, int gpus) {
  CAPTURE(network);
  const TrainingStep step = training_step(make_network(network), options);
  const Problem on_cpu{step.graph, make_cluster(preset_cluster("1xcpu-core"))};
  const Schedule alone = serial_schedule(on_cpu, DeviceId{0});
  const auto reference = make_cpu_backend()->prepare(on_cpu, {.recipe = &step.recipe}, alone);
  const double first = reference->step().loss, second = reference->step().loss;

  const Problem problem{step.graph, make_cluster(preset_cluster(std::to_string(gpus) + "xV100"))};
  FakeCuda fake{{.devices = gpus}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const Schedule serial = serial_schedule(problem, DeviceId{0});
    const auto one = backend->prepare(problem, {.recipe = &step.recipe}, serial);
    CHECK(one->step().loss == doctest::Approx(first).epsilon(1e-4));
    CHECK(one->step().loss == doctest::Approx(second).epsilon(1e-4));
    const std::uint64_t checksum = one->parameter_checksum();
    const Schedule spread = random_groups(problem, 3);
    const auto many = backend->prepare(problem, {.recipe = &step.recipe}, spread);
    const double spread_first = many->step().loss;
    const StepTrace& trace = many->step();
    CHECK(spread_first == doctest::Approx(first).epsilon(1e-4));
    CHECK(many->parameter_checksum() == checksum);  // every placement gives equal bits
    for (const OpId op : step.graph.ops())
      for (const TensorId tensor : step.graph.inputs(op))
        CHECK(trace.ops[op].start >= trace.ops[step.graph.producer(tensor)].end);
    many->reset();
    CHECK(many->step().loss == spread_first);
  }
  CHECK(fake.alive() == 0);
}

}  // namespace

TEST_CASE("a convolutional network on fake GPUs computes what the cpu computes, on every placement") {
  compare("lenet:batch=2", {.optimizer = Optimizer::adam}, 2);
  compare("lenet:batch=2", {.optimizer = Optimizer::momentum, .granularity = Granularity::fine}, 4);
}

TEST_CASE("a transformer on fake GPUs computes what the cpu computes, on every placement") {
  compare("transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4", {.optimizer = Optimizer::sgd},
          2);
}

TEST_CASE("recurrent networks on fake GPUs compute what the cpu computes") {
  compare("rnnlm:batch=2,steps=3,layers=2,hidden=8,vocabulary=20", {.optimizer = Optimizer::adam}, 2);
}

TEST_CASE("a schedule on fake GPUs is validated by the same code as on the cpu") {
  GraphBuilder builder{"pair"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{100'000}}}, .outputs = {{"t", Bytes{4096}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{200'000}}}, .inputs = {"t"}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("2xV100"))};
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}});
  FakeCuda fake{{.devices = 2}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const auto results = validate(*backend, problem, {}, {{"pair", schedule}}, {});
    CHECK(results[0].order_kept);
    CHECK(results[0].clean_steps >= 10);
    CHECK(std::abs(results[0].structural_error) < 0.001);  // replay with the measured times
    // Two ops and a copy: 0.1 ms + 0.2 ms + 5 us.
    CHECK(results[0].p50.count == doctest::Approx(305'041).epsilon(0.01));
  }
  CHECK(fake.alive() == 0);
}

TEST_CASE("one GPU stands for several devices as parts of it") {
  const TrainingStep step = training_step(make_network("lenet:batch=1"));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  const Schedule spread = random_groups(problem, 3);
  FakeCuda fake{{.devices = 1}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const auto run = backend->prepare(problem, {.recipe = &step.recipe}, spread);
    CHECK(std::isfinite(run->step().loss));
  }
  CHECK(fake.alive() == 0);
}

TEST_CASE("parts of one GPU send as their cluster's link, as fast as the GPU copies, or by the host") {
  GraphBuilder builder{"pair"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{100'000}}}, .outputs = {{"t", Bytes{1'000'000}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{200'000}}}, .inputs = {"t"}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("2xV100"))};
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}});
  // A copy within the GPU takes 1 us + 1 ns per 1,000 bytes, so 2 us; by way of the host it takes two copies. The
  // cluster's link takes far longer.
  const Nanoseconds link = simulate(problem, schedule).makespan - Nanoseconds{300'000};
  REQUIRE(link > Nanoseconds{10'000});
  for (const auto& [way, expected] :
       std::vector<std::pair<cuda::PartLinks, std::int64_t>>{{cuda::PartLinks::emulated, link.count},
                                                             {cuda::PartLinks::copied, 2'000},
                                                             {cuda::PartLinks::bounced, 4'000}}) {
    FakeCuda fake{{.devices = 1}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake, .part_links = way});
      const auto run = backend->prepare(problem, {}, schedule);
      run->step();
      CHECK(run->step().makespan.count == doctest::Approx(300'000 + static_cast<double>(expected)).epsilon(1e-5));
      const auto links = backend->measure_links(problem.cluster(), 1);
      REQUIRE(links.size() == (way == cuda::PartLinks::emulated ? 0 : 2));  // one for each direction
      if (links.empty()) continue;
      CHECK(links[1].from == "gpu1");
      CHECK(links[1].path == (way == cuda::PartLinks::copied ? "d2d" : "host-bounce"));
      // 256 bytes take the latency of one copy, or of two.
      CHECK(links[0].sizes[0].samples.kept[0].count == (way == cuda::PartLinks::copied ? 1'000 : 2'001));
    }
    CHECK(fake.alive() == 0);
  }
}

TEST_CASE(
    "links of parts by the host share its engines, which a bus of the cluster says and links of their own do not") {
  // At 0, a sends 1 MB to b and c sends 1 MB to d. By way of the host, a transfer takes 2 us up and 2 us down, and
  // waits for the other transfer.
  GraphBuilder builder{"two"};
  for (const auto& [from, to] : {std::pair{"a", "b"}, {"c", "d"}}) {
    builder.add({.name = from, .times = {{"gpu", Nanoseconds{1'000}}}, .outputs = {{from, Bytes{1'000'000}}}});
    builder.add({.name = to, .times = {{"gpu", Nanoseconds{1'000}}}, .inputs = {from}});
  }
  const Graph graph = std::move(builder).build();
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}, DeviceId{2}, DeviceId{3}});
  for (const bool bus : {true, false}) {
    ClusterSpec spec{.name = "parts"};
    for (const char* name : {"gpu0", "gpu1", "gpu2", "gpu3"})
      spec.devices.push_back({.name = name, .device_class = "gpu"});
    for (const int i : {0, 2})
      spec.links.push_back({.name = "l" + std::to_string(i),
                            .from = spec.devices[static_cast<std::size_t>(i)].name,
                            .to = spec.devices[static_cast<std::size_t>(i) + 1].name,
                            .bandwidth = BytesPerSecond{500e9},
                            .latency = Nanoseconds{2'000},
                            .bus = bus ? "pcie" : ""});
    spec.links.push_back({.name = "between", .from = "gpu0", .to = "gpu2", .bandwidth = BytesPerSecond{1e9}});
    const Problem problem{graph, make_cluster(std::move(spec))};
    const Nanoseconds predicted = simulate(problem, schedule).makespan;
    CHECK(predicted == Nanoseconds{bus ? 10'000 : 6'000});
    FakeCuda fake{{.devices = 1, .shared_engines = true}};
    const auto backend = cuda::make_cuda_backend({.libraries = &fake, .part_links = cuda::PartLinks::bounced});
    const auto run = backend->prepare(problem, {}, schedule);
    run->step();
    // Without the bus the second transfer's way up follows the first's, and its way up overlaps the first's way down: 1
    // + 2 + 2 + 2 + 1 us.
    CHECK(run->step().makespan.count == doctest::Approx(bus ? 10'000 : 8'000).epsilon(0.01));
  }
}

TEST_CASE("copies between parts are measured as they are made: by the SMs that the parts leave") {
  GraphBuilder builder{"pair"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{100'000}}}, .outputs = {{"t", Bytes{1 << 20}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{200'000}}}, .inputs = {"t"}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("2xV100"))};
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}});
  // Each part has 64 of 132 SMs, which leaves 4 for copies. A copy takes 1 us + (132 / 4) x 1 ns per 1,000 bytes.
  constexpr double kCopy = 1'000 + 33 * 1'048.576;
  FakeCuda fake{{.devices = 1, .copied_by_sms = std::size_t{1} << 30}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake, .part_links = cuda::PartLinks::copied});
    const auto run = backend->prepare(problem, {}, schedule);
    run->step();
    CHECK(run->step().makespan.count == doctest::Approx(300'000 + kCopy).epsilon(1e-5));
    const LinkMeasurement link = backend->measure_links(problem.cluster(), 4'000'000'000).front();
    CHECK(link.engine == "sm");
    const auto size = std::ranges::find(link.sizes, Bytes{1 << 20}, &SizeMeasurement::bytes);
    CHECK(static_cast<double>(size->samples.kept[0].count) == doctest::Approx(kCopy).epsilon(1e-4));
  }
  CHECK(fake.alive() == 0);
}

TEST_CASE("products on a part of a GPU are chosen for its SMs, and captured ones allocate nothing") {
  const TrainingStep step = training_step(make_network("lenet:batch=1"));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  const Schedule spread = random_groups(problem, 3);
  const auto violations = [&](const std::string& ignored) {
    FakeCuda fake{{.devices = 1, .ignored = ignored, .collect = true}};
    const auto backend = cuda::make_cuda_backend({.libraries = &fake, .graph = true});
    const auto run = backend->prepare(problem, {.recipe = &step.recipe}, spread);
    run->step();
    run->step();  // captured as a graph
    backend->time_alone(problem, {.recipe = &step.recipe}, DeviceId{0}, MeasureMode::hot, 1);
    return fake.violations();
  };
  CHECK(violations("").empty());
  const auto found = [](const std::vector<std::string>& all, const std::string& words) {
    return std::ranges::any_of(all, [&](const std::string& said) { return said.find(words) != std::string::npos; });
  };
  CHECK(found(violations("cublasSetSmCountTarget"), "a product is chosen for 0 SMs and runs on 64"));
  CHECK(found(violations("cublasSetWorkspace_v2"), "a captured product has cuBLAS's own workspace"));
}

TEST_CASE("a GPU is split into parts once for all runs of a backend") {
  const TrainingStep step = training_step(make_network("lenet:batch=1"));
  const Problem problem{step.graph, make_cluster(preset_cluster("4xV100"))};
  const Schedule spread = random_groups(problem, 3);
  FakeCuda fake{{.devices = 1}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake});
  for (int i = 0; i < 3; ++i) backend->prepare(problem, {.recipe = &step.recipe}, spread)->step();
  CHECK(fake.calls("cuGreenCtxCreate") == 5);  // four parts, and one for copies between them
}

TEST_CASE("an op by itself is timed without its launches, however many they are") {
  const TrainingStep step = training_step(make_network("rnnlm:batch=2,steps=3,layers=1,hidden=8,vocabulary=20"));
  const Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  const auto times = [&](double launch_ns) {
    FakeCuda fake{{.devices = 1, .launch_ns = launch_ns}};
    std::vector<std::int64_t> result;
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    for (const AloneSample& sample :
         backend->time_alone(problem, {.recipe = &step.recipe}, DeviceId{0}, MeasureMode::hot, 2))
      result.push_back(sample.time.count);
    return result;
  };
  const std::vector<std::int64_t> free = times(0);
  CHECK(std::ranges::max(free) == 11'000);  // 11 kernels of 1 us
  CHECK(times(7'000) == free);              // launching takes 77 us, over the usual delay of 50
}

TEST_CASE("a convolution takes the next algorithm where cuDNN's heuristic names one that is not there") {
  const TrainingStep step = training_step(make_network("lenet:batch=2"));
  const Problem problem{step.graph, make_cluster(preset_cluster("1xV100"))};
  const Schedule serial = serial_schedule(problem, DeviceId{0});
  const auto losses = [&](bool wrong) {
    FakeCuda fake{{.devices = 1, .wrong_heuristics = wrong}};
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const auto run = backend->prepare(problem, {.recipe = &step.recipe}, serial);
    const double first = run->step().loss, second = run->step().loss;
    return std::pair{first, second};
  };
  CHECK(losses(true) == losses(false));
}

TEST_CASE("what is missing, and what cannot be run, is told before anything runs") {
  {
    FakeCuda fake{{.lacks_library = "libcublas"}};
    CHECK_THROWS_AS(cuda::make_cuda_backend({.libraries = &fake}), MissingError);
  }
  {
    FakeCuda fake{{.devices = 0}};
    CHECK_THROWS_WITH_AS(cuda::make_cuda_backend({.libraries = &fake}), "this machine has no usable NVIDIA GPU",
                         MissingError);
  }
  FakeCuda fake{{.devices = 2}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake});
  const TrainingStep step = training_step(make_network("lenet:batch=1"));
  const Problem cores{step.graph, make_cluster(preset_cluster("2xcpu-core"))};
  const Schedule serial = serial_schedule(cores, DeviceId{0});
  CHECK_THROWS_AS(backend->prepare(cores, {.recipe = &step.recipe}, serial), InputError);
}

TEST_CASE("each call that may fail ends the run with its name, and everything is given back") {
  zoo::LayerBuilder net{"small"};
  net.at("layer");
  const ValueId x = net.conv(net.input("x", {1, 1, 4, 4}), {.channels = 2, .kernel = {3, 3}, .padding = {1, 1}});
  const ValueId y = net.softmax(net.average_pool(net.relu(x), {.kernel = 2, .stride = 2}));
  const TrainingStep step = training_step(std::move(net).finish({net.gemm(net.flatten(y), 5)}));
  const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
  const Schedule spread = random_groups(problem, 3);
  for (const std::string call :
       {"cudaMemcpyPeerAsync", "cudaMemcpyAsync", "cuLaunchKernel", "cublasSgemm_v2", "cublasCreate_v2",
        "cuLibraryLoadData", "cudaStreamSynchronize", "cudaEventRecord", "cudnnPoolingForward", "cudnnPoolingBackward",
        "cudnnSoftmaxForward", "cudnnSoftmaxBackward"}) {
    CAPTURE(call);
    FakeCuda fake{{.devices = 2, .fails = call, .fails_at = 1}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      bool failed = false;
      try {
        const auto run = backend->prepare(problem, {.recipe = &step.recipe}, spread);
        run->step();
      } catch (const cuda::CudaError& error) {
        failed = true;
        CHECK(error.status() == 719);
      }
      CHECK(failed);
    }
    CHECK(fake.alive() == 0);
  }
  FakeCuda full{{.devices = 2, .memory = 1 << 16}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &full});
    CHECK_THROWS_AS(backend->prepare(problem, {.recipe = &step.recipe}, spread)->step(), MissingError);
  }
  CHECK(full.alive() == 0);
}
