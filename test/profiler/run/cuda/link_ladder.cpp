#include "profiler/run/cuda/link_ladder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

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
  const CalibratedLink link = calibrate::fit_link(cuda::link_ladder(tables, 0, 1, {.sizes = sizes()}), {}, notes);
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

TEST_CASE("a ladder takes only the sizes that there is room for, and gives all back when a copy fails") {
  cuda::Tables tables;
  {
    FakeCuda small{{.devices = 1, .memory = 1 << 20}};
    cuda::load(tables, small);
    CHECK(cuda::link_ladder(tables, 0, 0).sizes.back().bytes == Bytes{256 << 10});  // a quarter of it
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
      delay.launch(3'200, stream.get());  // 100 ticks of 32 ns
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
