#include "profiler/run/cuda/executor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/cuda/green_contexts.hpp"
#include "support/random_problem.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// A cluster of `devices` GPUs. Each ordered pair has a link with the fake's times.
ClusterSpec gpus(std::size_t devices) {
  ClusterSpec spec{.name = "fake"};
  for (std::size_t i = 0; i < devices; ++i)
    spec.devices.push_back({.name = "gpu" + std::to_string(i), .kind = "Fake", .device_class = "gpu"});
  for (std::size_t i = 0; i < devices; ++i)
    for (std::size_t k = i + 1; k < devices; ++k)
      spec.links.push_back({.name = "l" + std::to_string(i) + std::to_string(k),
                            .from = spec.devices[i].name,
                            .to = spec.devices[k].name,
                            .bandwidth = BytesPerSecond{100e9},
                            .latency = Nanoseconds{5'000}});
  return spec;
}

/// A first op, `width` parallel chains of `length` ops, and a last op that joins them.
Graph fan(std::size_t width, std::size_t length) {
  GraphBuilder builder{"fan"};
  builder.add({.name = "first", .times = {{"gpu", Nanoseconds{3'000}}}, .outputs = {{"t", Bytes{10'000}}}});
  std::vector<std::string> last;
  for (std::size_t i = 0; i < width; ++i) {
    std::string input = "t";
    for (std::size_t k = 0; k < length; ++k) {
      const std::string name = std::to_string(i) + "-" + std::to_string(k);
      builder.add({.name = "op" + name,
                   .times = {{"gpu", Nanoseconds{static_cast<std::int64_t>(2'000 + 700 * i + 300 * k)}}},
                   .inputs = {input},
                   .outputs = {{"t" + name, Bytes{static_cast<std::int64_t>(40'000 * (i + 1))}}}});
      input = "t" + name;
    }
    last.push_back(input);
  }
  builder.add({.name = "last", .times = {{"gpu", Nanoseconds{1'000}}}, .inputs = last});
  return std::move(builder).build();
}

Schedule round_robin(const Problem& problem) {
  Schedule schedule;
  schedule.placement.assign(problem.op_count(), DeviceId{0});
  for (const OpId op : problem.ops()) schedule.placement[op] = DeviceId{op.index() % problem.device_count()};
  return schedule;
}

struct FakeRun {
  FakeCuda fake;
  cuda::Tables tables;
  std::vector<cuda::LibraryState> states;

  explicit FakeRun(const FakeCudaOptions& options) : fake(options), states(cuda::load(tables, fake)) {}

  static std::vector<cuda::Target> whole_gpus(const Problem& problem) {
    std::vector<cuda::Target> targets;
    for (const DeviceId device : problem.devices()) targets.push_back({static_cast<int>(device.index()), {}});
    return targets;
  }

  cuda::ExecutionResult run(const Problem& problem, const cuda::ExecutionPlan& plan,
                            std::vector<cuda::Target> targets) {
    cuda::CudaExecutor executor{tables, plan, std::move(targets)};
    return executor.run(launcher(problem), {.warm = 1, .measured = 2});
  }

  /// Launches kernels that take the op's time, access the bytes of the plan, and write 1 + the sum of their inputs.
  static cuda::Launch launcher(const Problem& problem) {
    return [&problem](const cuda::PlanItem& item, std::span<void* const> reads, std::span<void* const> writes,
                      cuda::Stream stream) {
      std::vector<FakeCuda::Bytes> from, to;
      for (std::size_t i = 0; i < reads.size(); ++i)
        from.push_back({reads[i], static_cast<std::size_t>(item.reads[i].bytes.count)});
      for (std::size_t i = 0; i < writes.size(); ++i)
        to.push_back({writes[i], static_cast<std::size_t>(item.writes[i].bytes.count)});
      FakeCuda::kernel(stream, static_cast<double>(problem.duration(item.op, item.from).count), from, to,
                       [](const auto& inputs, const auto& outputs) {
                         unsigned sum = 1;
                         for (const auto& input : inputs)
                           if (input.size > 0) sum += static_cast<const unsigned char*>(input.at)[input.size - 1];
                         for (const auto& output : outputs)
                           if (output.size > 0)
                             std::fill_n(static_cast<unsigned char*>(const_cast<void*>(output.at)), output.size,
                                         static_cast<unsigned char>(sum));
                       });
      return std::size_t{1};
    };
  }
};

void check_against_timeline(const cuda::ExecutionPlan& plan, const cuda::ExecutionResult& result,
                            const Timeline& timeline) {
  for (const cuda::StepRun& step : result.steps) {
    CHECK(std::abs(step.makespan_ns - static_cast<double>(timeline.makespan.count)) < 3);
    for (std::size_t at = 0; at < plan.items.size(); ++at) {
      CAPTURE(at);
      CHECK(std::abs(step.items[at].start_ns - static_cast<double>(plan.items[at].predicted.start.count)) < 3);
      CHECK(std::abs(step.items[at].end_ns - static_cast<double>(plan.items[at].predicted.end.count)) < 3);
    }
  }
}

}  // namespace

TEST_CASE("on 1, 2 and 4 fake GPUs every op and transfer starts and ends when the simulator says") {
  for (const std::size_t devices : {1u, 2u, 4u}) {
    CAPTURE(devices);
    const Problem problem{fan(5, 6), make_cluster(gpus(devices))};
    const Schedule schedule = round_robin(problem);
    const Timeline timeline = simulate(problem, schedule);
    const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, timeline);
    FakeRun fake{{.devices = static_cast<int>(devices)}};
    const cuda::ExecutionResult result = fake.run(problem, plan, FakeRun::whole_gpus(problem));
    CHECK(result.gated);
    CHECK(result.steps.size() == 2);
    check_against_timeline(plan, result, timeline);
    CHECK((fake.fake.calls("cudaMemcpyPeerAsync") > 0) == (devices > 1));
    CHECK(fake.fake.alive() == 0);  // all resources are released
  }
}

TEST_CASE("links that carry one transfer at a time keep to it, in the simulator's order") {
  ClusterSpec spec = gpus(2);
  spec.links[0].duplex = Duplex::half;
  for (const bool bus : {false, true}) {
    CAPTURE(bus);
    if (bus) {
      spec = gpus(4);
      for (Link& link : spec.links) link.bus = "pcie";
    }
    const Problem problem{fan(5, 6), make_cluster(spec)};
    const Schedule schedule = round_robin(problem);
    const Timeline timeline = simulate(problem, schedule);
    const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, timeline);
    FakeRun fake{{.devices = static_cast<int>(spec.devices.size())}};
    check_against_timeline(plan, fake.run(problem, plan, FakeRun::whole_gpus(problem)), timeline);
  }
}

TEST_CASE("an item waits only for earlier ones, and memory is at least the predicted peak") {
  const Problem problem{fan(7, 5), make_cluster(gpus(3))};
  const Schedule schedule = round_robin(problem);
  const Timeline timeline = simulate(problem, schedule);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, timeline);
  CHECK(plan.items.size() == problem.op_count() + timeline.transfers.size());
  for (std::uint32_t at = 0; at < plan.items.size(); ++at)
    for (const std::uint32_t other : plan.items[at].waits) CHECK(other < at);
  for (const DeviceId device : problem.devices()) {
    CHECK(plan.arena[device] >= plan.predicted_peak[device]);
    CHECK(plan.arena[device].count <= 2 * plan.predicted_peak[device].count + 256 * 64);
  }
}

TEST_CASE("values are the same on every number of GPUs and parts of one") {
  std::vector<unsigned char> seen;
  for (const std::size_t devices : {1u, 2u, 4u}) {
    GraphBuilder builder{"sum"};
    builder.add({.name = "a", .times = {{"gpu", Nanoseconds{5'000}}}, .outputs = {{"t", Bytes{1'000}}}});
    builder.add(
        {.name = "b", .times = {{"gpu", Nanoseconds{5'000}}}, .inputs = {"t"}, .outputs = {{"u", Bytes{1'000}}}});
    builder.add(
        {.name = "c", .times = {{"gpu", Nanoseconds{5'000}}}, .inputs = {"t"}, .outputs = {{"v", Bytes{1'000}}}});
    builder.add({.name = "d",
                 .times = {{"gpu", Nanoseconds{5'000}}},
                 .inputs = {"u", "v"},
                 .outputs = {{"w", Bytes{1'000}, true}}});
    const Problem problem{std::move(builder).build(), make_cluster(gpus(devices))};
    const Schedule schedule = round_robin(problem);
    const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
    FakeRun fake{{.devices = static_cast<int>(devices)}};
    cuda::CudaExecutor executor{fake.tables, plan, FakeRun::whole_gpus(problem)};
    executor.run(FakeRun::launcher(problem));
    const auto last = std::ranges::find(plan.items, OpId{3}, &cuda::PlanItem::op);
    seen.push_back(*static_cast<unsigned char*>(executor.address(last->writes[0])));
  }
  CHECK(seen == std::vector<unsigned char>(3, 5));  // a 1, b and c 1 + 1, d 1 + 2 + 2
}

TEST_CASE("parts of one GPU run a schedule of several devices") {
  const Problem problem{fan(5, 6), make_cluster(gpus(4))};
  const Schedule schedule = round_robin(problem);
  const Timeline timeline = simulate(problem, schedule);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, timeline);
  // Copies within a GPU take as long as the cluster's links.
  FakeRun fake{{.devices = 1, .own_latency_ns = 5'000, .own_ns_per_byte = 0.01}};
  {
    const cuda::GreenContexts parts{fake.tables, 0, 4};
    CHECK(parts.sms() == 32);  // 132 / 4 = 33, rounded down to a multiple of 8
    check_against_timeline(plan, fake.run(problem, plan, parts.targets()), timeline);
  }
  CHECK(fake.fake.calls("cudaMemcpyPeerAsync") == 0);
  CHECK(fake.fake.alive() == 0);
  CHECK(cuda::sms_per_part(132, 2, 8, 8) == 64);
  CHECK(cuda::sms_per_part(132, 8, 8, 8) == 16);
  CHECK(cuda::sms_per_part(132, 17, 8, 8) == 0);
  CHECK_THROWS_AS((cuda::GreenContexts{fake.tables, 0, 17}), MissingError);
}

TEST_CASE("copies between parts of a GPU take no SMs of a part, whoever makes them") {
  const Problem problem{fan(5, 6), make_cluster(gpus(4))};
  const Schedule schedule = round_robin(problem);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  // SMs of the GPU, of the smallest context, and of each of four parts.
  for (const std::array<unsigned, 3>& gpu :
       {std::array{132U, 1U, 32U}, {132U, 8U, 24U}, {128U, 1U, 24U}, {136U, 8U, 32U}}) {
    const unsigned sms = gpu[0], least = gpu[1], each = gpu[2];
    CAPTURE(sms);
    FakeRun fake{{.devices = 1, .sms = sms, .copied_by_sms = 1 << 30, .least_part = least, .collect = true}};
    const cuda::GreenContexts parts{fake.tables, 0, 4};
    CHECK(parts.sms() == each);
    std::vector<cuda::Target> targets = parts.targets();
    fake.run(problem, plan, targets);
    CHECK(fake.fake.violations().empty());
    for (cuda::Target& target : targets) target.make_link_stream = target.make_stream;
    fake.run(problem, plan, targets);
    REQUIRE_FALSE(fake.fake.violations().empty());
    CHECK(fake.fake.violations().front() == "a copy takes the SMs of a part that computes");
  }
}

TEST_CASE("a call that fails is named, and everything is given back") {
  const Problem problem{fan(3, 3), make_cluster(gpus(2))};
  const Schedule schedule = round_robin(problem);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  for (const std::string call :
       {"cudaMemcpyPeerAsync", "cudaStreamWaitEvent", "cudaEventRecord", "cudaStreamCreateWithFlags", "cudaMalloc",
        "cudaEventCreateWithFlags", "cuStreamWaitValue32_v2", "cudaHostAlloc", "cudaDeviceEnablePeerAccess",
        "cudaEventElapsedTime", "cudaSetDevice", "cudaStreamSynchronize"}) {
    CAPTURE(call);
    FakeRun fake{{.devices = 2, .fails = call, .fails_at = call == "cudaHostAlloc" ? 1 : 2}};
    try {
      fake.run(problem, plan, FakeRun::whole_gpus(problem));
      FAIL("the fault was not seen");
    } catch (const cuda::CudaError& error) {
      CHECK(std::string{error.what()}.find(call.substr(0, call.find("_v2"))) == 0);
      CHECK(error.status() == 719);
    }
    CHECK(fake.fake.alive() == 0);
  }
}

TEST_CASE("a gate that the launches cannot wait behind opens by itself, and stays open") {
  const Problem problem{fan(3, 3), make_cluster(gpus(2))};
  const Schedule schedule = round_robin(problem);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  FakeRun fake{{.devices = 2, .queue = 8}};
  {
    cuda::CudaExecutor executor{fake.tables, plan, FakeRun::whole_gpus(problem)};
    for (int i = 0; i < 2; ++i) {
      const auto result = executor.run(FakeRun::launcher(problem), {.warm = 0, .most_issue_seconds = 0.05});
      CHECK(!result.gated);
      CHECK(result.steps.size() == 3);
    }
  }
  CHECK(fake.fake.calls("cuStreamWaitValue32_v2") == 2);  // one stream of each GPU, in one step
  CHECK(fake.fake.alive() == 0);
}

TEST_CASE("too little memory is said with its numbers") {
  const Problem problem{fan(3, 3), make_cluster(gpus(2))};
  const Schedule schedule = round_robin(problem);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  FakeRun fake{{.devices = 2, .memory = 1'000}};
  try {
    fake.run(problem, plan, FakeRun::whole_gpus(problem));
    FAIL("there was enough");
  } catch (const MissingError& error) {
    CHECK(std::string{error.what()}.find("GPU 0 cannot allocate") == 0);
    CHECK(std::string{error.what()}.find("1.00 kB of 1.00 kB are free") != std::string::npos);
  }
  CHECK(fake.fake.alive() == 0);
}

TEST_CASE("the fake sees what CUDA lets pass in silence") {
  FakeRun run{{.devices = 2, .collect = true}};
  const cuda::Runtime& cuda = run.tables.runtime;
  cuda::Stream one = nullptr;
  cuda::Event event = nullptr;
  void *a = nullptr, *b = nullptr;
  cuda.cudaSetDevice(0);
  cuda.cudaStreamCreateWithFlags(&one, cuda::kNonBlocking);
  cuda.cudaEventCreateWithFlags(&event, 0);
  cuda.cudaMalloc(&a, 100);
  cuda.cudaSetDevice(1);
  cuda.cudaMalloc(&b, 100);
  const auto last = [&](const std::string& words) {  // searches the violations of the last call
    static std::size_t seen = 0;
    const std::vector<std::string>& all = run.fake.violations();
    const bool found = std::any_of(all.begin() + static_cast<std::ptrdiff_t>(seen), all.end(),
                                   [&](const std::string& said) { return said.find(words) != std::string::npos; });
    seen = all.size();
    return found;
  };
  cuda.cudaStreamWaitEvent(one, event, 0);
  CHECK(last("never recorded"));
  cuda.cudaMemcpyPeerAsync(b, 0, a, 1, 100, one);
  CHECK(last("wrong GPU"));
  cuda.cudaMemcpyAsync(b, a, 100, cuda::device_to_device, one);
  CHECK(last("kind does not match"));
  cuda.cudaFree(a);
  CHECK(last("pending"));
  cuda.cudaFree(a);
  CHECK(last("twice"));
  cuda.cudaMemcpyPeerAsync(b, 1, a, 0, 100, one);
  CHECK(last("freed"));
  cuda.cudaStreamSynchronize(one);
  cuda::Event other = nullptr;
  cuda.cudaEventCreateWithFlags(&other, 0);
  cuda.cudaEventRecord(other, one);
  CHECK(last("another GPU's stream"));
}

TEST_CASE("a missing event is seen as a race") {
  FakeRun run{{.devices = 1, .collect = true}};
  const cuda::Runtime& cuda = run.tables.runtime;
  cuda::Stream one = nullptr, two = nullptr;
  void* a = nullptr;
  cuda.cudaSetDevice(0);
  cuda.cudaStreamCreateWithFlags(&one, cuda::kNonBlocking);
  cuda.cudaStreamCreateWithFlags(&two, cuda::kNonBlocking);
  cuda.cudaMalloc(&a, 100);
  cuda.cudaMemsetAsync(a, 1, 100, one);
  cuda.cudaMemsetAsync(a, 2, 100, two);
  cuda.cudaDeviceSynchronize();
  REQUIRE(run.fake.violations().size() == 1);
  CHECK(run.fake.violations()[0].find("same bytes at once") != std::string::npos);
}

TEST_CASE("streams that pass the gate one after the other still count from one time") {
  // A chain of eight ops of at least 2 us on two parts of a GPU, whose streams pass the start gate 3 us apart.
  const Problem problem{fan(1, 8), make_cluster(gpus(2))};
  const Schedule schedule = round_robin(problem);
  const Timeline timeline = simulate(problem, schedule);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, timeline);
  FakeRun fake{{.devices = 1, .own_latency_ns = 5'000, .own_ns_per_byte = 0.01, .gate_skew_ns = 3'000}};
  const cuda::GreenContexts parts{fake.tables, 0, 2};
  check_against_timeline(plan, fake.run(problem, plan, parts.targets()), timeline);
  CHECK(fake.fake.calls("cuStreamWaitValue32_v2") == 3);  // one stream of the GPU waits in each of three steps
}

TEST_CASE("a step whose launches would fill the queue is not gated, once it was counted") {
  const Problem problem{fan(3, 3), make_cluster(gpus(1))};
  const Schedule schedule = round_robin(problem);
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  FakeRun fake{{.devices = 1}};
  cuda::CudaExecutor executor{fake.tables, plan, FakeRun::whole_gpus(problem)};
  const cuda::Launch one = FakeRun::launcher(problem);
  const cuda::Launch many = [&](const cuda::PlanItem& item, std::span<void* const> reads, std::span<void* const> writes,
                                cuda::Stream stream) {
    one(item, reads, writes, stream);
    return std::size_t{100};  // like a product of 100 matrices one by one
  };
  // 11 ops, each with 2 event records and 100 launches; one stream needs no waits.
  const auto first = executor.run(many, {.warm = 0, .measured = 1, .gate = false});
  CHECK(first.queued == 11 * 102);
  CHECK_FALSE(executor.run(many, {.warm = 0, .measured = 1}).gated);
  CHECK(executor.run(many, {.warm = 0, .measured = 1, .most_queued = 11 * 102}).gated);
}
