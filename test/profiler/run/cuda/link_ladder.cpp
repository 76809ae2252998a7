#include "profiler/run/cuda/link_ladder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/link_fit.hpp"
#include "profiler/run/cuda/delay_kernels.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

std::vector<Bytes> sizes() {
  std::vector<Bytes> all;
  for (std::int64_t bytes = 256; bytes <= 4 << 20; bytes *= 4) all.push_back(Bytes{bytes});
  return all;
}

}  // namespace

TEST_CASE("the ladder and the fit recover the latency and the bandwidth of a fake link") {
  FakeCuda fake{{.devices = 2, .latency_ns = 20'000, .ns_per_byte = 0.25}};
  cuda::Tables tables;
  cuda::load(tables, fake);
  std::vector<std::string> notes;
  const CalibratedLink link = calibrate::fit_link(cuda::link_ladder(tables, 0, 1, {.sizes = sizes()}), 1, notes);
  CHECK(link.from == "gpu0");
  CHECK(link.path == "peer");
  REQUIRE(link.segments.size() == 1);
  CHECK(std::abs(link.segments[0].latency_ns - 20'000) <= 200);
  CHECK(std::abs(link.segments[0].ns_per_byte - 0.25) <= 0.0025);
  CHECK(notes.empty());
  CHECK(fake.alive() == 0);
}

TEST_CASE("both ends may be the host, pinned or not, or one GPU, and the bytes that arrive are compared") {
  for (const bool pinned : {true, false}) {
    for (const auto& ends : {std::pair{cuda::kHost, 0}, {0, cuda::kHost}, {0, 0}}) {
      const int from = ends.first, to = ends.second;
      CAPTURE(from);
      CAPTURE(to);
      FakeCuda fake{{.devices = 1}};
      cuda::Tables tables;
      cuda::load(tables, fake);
      const LinkMeasurement link =
          cuda::link_ladder(tables, from, to, {.sizes = sizes(), .samples = 3, .pinned = pinned});
      CHECK(link.sizes.size() == sizes().size());
      CHECK(link.sizes[0].samples.kept.size() == 3);
      CHECK(link.pinned == pinned);
      CHECK(fake.alive() == 0);
    }
  }
}

TEST_CASE("copies that the host launches more slowly than they run are timed without their launches") {
  const auto times = [](double launch_ns) {
    FakeCuda fake{{.devices = 2, .launch_ns = launch_ns}};
    cuda::Tables tables;
    cuda::load(tables, fake);
    std::vector<Nanoseconds> all;
    for (const bool bounced : {false, true})
      for (const SizeMeasurement& size : cuda::link_ladder(tables, 0, 0, {.sizes = sizes(), .bounced = bounced}).sizes)
        all.push_back(size.samples.kept.front());
    return all;
  };
  CHECK(times(0).front() == Nanoseconds{1'000});
  CHECK(times(7'000) == times(0));
}

TEST_CASE("a ladder tells the engine that copies are made by, and what ran beside them") {
  FakeCuda fake{{.devices = 2, .copied_by_sms = 100'000}};
  cuda::Tables tables;
  cuda::load(tables, fake);
  const auto engine = [&](int from, int to, std::int64_t smallest, std::int64_t largest) {
    return cuda::link_ladder(tables, from, to, {.sizes = {Bytes{smallest}, Bytes{1'000}, Bytes{largest}}}).engine;
  };
  CHECK(engine(0, 0, 256, 4'096) == "sm");
  CHECK(engine(0, 0, 256, 1 << 20) == "sm, ce");
  CHECK(engine(0, 1, 256, 4'096) == "ce");  // between GPUs
  CHECK(engine(cuda::kHost, 0, 256, 4'096) == "ce");
  const int before = fake.calls("cudaMemcpyAsync");
  const auto both = cuda::link_ladder(tables, cuda::kHost, 0, {.sizes = sizes(), .both_ways = true});
  CHECK(both.beside == std::vector<std::string>{"gpu0-host"});
  const int both_copies = fake.calls("cudaMemcpyAsync") - before;
  cuda::link_ladder(tables, cuda::kHost, 0, {.sizes = sizes()});
  CHECK(both_copies > 2 * (fake.calls("cudaMemcpyAsync") - before - both_copies));
}

TEST_CASE("copies of a ladder are of 64 MiB between two events at most, so that it takes seconds") {
  const auto copies = [](std::int64_t bytes) {
    FakeCuda fake{{.devices = 1, .lacks_library = "libcupti"}};
    cuda::Tables tables;
    cuda::load(tables, fake);
    cuda::link_ladder(tables, 0, 0, {.sizes = {Bytes{bytes}}, .warm = 1, .samples = 2});
    // Besides the samples: a fill before, a comparison after, and one copy to find the engine.
    return fake.calls("cudaMemcpyAsync");
  };
  const int once = copies(64 << 20);
  CHECK(copies(16 << 20) - once == 3 * (4 - 1));
  CHECK(copies(1 << 20) - once == 3 * (16 - 1));
  CHECK(copies(256) - once == 3 * (16 - 1));
}

TEST_CASE("a ladder whose time is over leaves larger sizes out, but has enough for a latency and a bandwidth") {
  FakeCuda fake{{.devices = 2}};
  cuda::Tables tables;
  cuda::load(tables, fake);
  CHECK(cuda::link_ladder(tables, 0, 1, {.sizes = sizes(), .most_ns = 0}).sizes.back().bytes == Bytes{256 << 6});
}

TEST_CASE("without CUPTI a ladder does not say what makes copies") {
  FakeCuda fake{{.devices = 1, .lacks_library = "libcupti"}};
  cuda::Tables tables;
  cuda::load(tables, fake);
  CHECK(cuda::link_ladder(tables, 0, 0, {.sizes = sizes()}).engine.empty());
}

TEST_CASE("a ladder takes only the sizes that there is room for, and gives all back when a copy fails") {
  cuda::Tables tables;
  {
    FakeCuda small{{.devices = 1, .memory = 1 << 20}};
    cuda::load(tables, small);
    CHECK(cuda::link_ladder(tables, 0, 0).sizes.back().bytes == Bytes{256 << 10});  // a quarter of the memory
  }
  FakeCuda failing{{.devices = 2, .fails = "cudaMemcpyPeerAsync", .fails_at = 7}};
  cuda::load(tables, failing);
  CHECK_THROWS_AS(cuda::link_ladder(tables, 0, 1, {.sizes = sizes()}), cuda::CudaError);
  CHECK(failing.alive() == 0);
}

TEST_CASE("delay kernels take their time where the GPU's timer counts in microseconds too") {
  for (const double tick : {1.0, 32.0, 1'000.0}) {
    CAPTURE(tick);
    FakeCuda fake{{.devices = 1, .timer_tick_ns = tick}};
    cuda::Tables tables;
    cuda::load(tables, fake);
    {
      const cuda::DelayKernels delay{tables, 0};
      CHECK(delay.tick_ns() == tick);
      const cuda::Owned begin = cuda::make_event(tables.runtime), end = cuda::make_event(tables.runtime),
                        stream = cuda::make_stream(tables.runtime);
      tables.runtime.cudaEventRecord(begin.get(), stream.get());
      delay.launch(3'200, stream.get());  // 100 timer ticks of 32 ns
      tables.runtime.cudaEventRecord(end.get(), stream.get());
      tables.runtime.cudaStreamSynchronize(stream.get());
      float milliseconds = 0;
      tables.runtime.cudaEventElapsedTime(&milliseconds, begin.get(), end.get());
      CHECK(milliseconds == doctest::Approx(3.2e-3).epsilon(1e-3));
    }
    CHECK(fake.alive() == 0);
  }
}

TEST_CASE("delay kernels take the time that they are given") {
  FakeCuda fake{{.devices = 1}};
  cuda::Tables tables;
  cuda::load(tables, fake);
  const cuda::DelayKernels kernels{tables, 0};
  const cuda::Runtime& runtime = tables.runtime;
  cuda::Stream stream = nullptr;
  cuda::Event begin = nullptr, end = nullptr;
  runtime.cudaStreamCreateWithFlags(&stream, cuda::kNonBlocking);
  runtime.cudaEventCreateWithFlags(&begin, 0);
  runtime.cudaEventCreateWithFlags(&end, 0);
  runtime.cudaEventRecord(begin, stream);
  kernels.launch(123'000, stream);
  runtime.cudaEventRecord(end, stream);
  runtime.cudaStreamSynchronize(stream);
  float milliseconds = 0;
  CHECK(runtime.cudaEventElapsedTime(&milliseconds, begin, end) == 0);
  CHECK(milliseconds == doctest::Approx(0.123));
}
