#include "profiler/run/cuda/loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "profiler/run/cuda/fake_cuda.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// What require_gpus says of a fake; "N" where there are N GPUs.
std::string said(const FakeCudaOptions& options) {
  FakeCuda fake{options};
  cuda::Tables tables;
  const auto states = cuda::load(tables, fake);
  try {
    return std::to_string(cuda::require_gpus(tables, states));
  } catch (const MissingError& error) {
    CHECK_FALSE(error.help().empty());
    return error.what();
  }
}

}  // namespace

TEST_CASE("with everything there, every library is in order") {
  FakeCuda fake{{.devices = 4}};
  cuda::Tables tables;
  const auto states = cuda::load(tables, fake);
  REQUIRE(states.size() == 7);
  for (const cuda::LibraryState& state : states) {
    CAPTURE(state.name);
    CHECK(state.usable());
    CHECK(state.file.starts_with("fake/lib"));
  }
  CHECK(cuda::require_gpus(tables, states) == 4);
}

TEST_CASE("each thing that can be missing has a message of its own") {
  CHECK(said({.lacks_library = "libcuda.so"}) == "the NVIDIA driver (libcuda.so.1) was not found");
  CHECK(said({.lacks_library = "libcudart"}) == "the CUDA runtime (libcudart.so.13) was not found");
  CHECK(said({.lacks_symbol = "cudaMemcpyPeerAsync"}) ==
        "fake/libcudart.so.13 lacks the function cudaMemcpyPeerAsync: it is too old or damaged");
  CHECK(said({.lacks_symbol = "cuGreenCtxCreate"}) ==
        "fake/libcuda.so.1 lacks the function cuGreenCtxCreate: it is too old or damaged");
  CHECK(said({.runtime_version = 12080}) ==
        "fake/libcudart.so.13 has the version 12.8, this program was written for 13");
  CHECK(said({.driver_version = 12040}) ==
        "fake/libcuda.so.1 has the version 12.4, this program was written for CUDA 13.0 or later");
  CHECK(said({.devices = 0}) == "this machine has no NVIDIA GPU that may be used");
  CHECK(said({.fails = "cudaGetDeviceCount", .status = 34}) == "libcuda.so.1 is the toolkit's stub, not a driver");
  CHECK(said({.fails = "cudaGetDeviceCount", .status = 35}) == "the NVIDIA driver is older than the CUDA runtime");
  CHECK(said({.fails = "cudaGetDeviceCount", .status = 999}) == "the GPUs cannot be used: a planted fault");
}

TEST_CASE("what is optional may be missing until it is needed") {
  FakeCuda fake{{.lacks_library = "libcudnn"}};
  cuda::Tables tables;
  const auto states = cuda::load(tables, fake);
  CHECK(cuda::require_gpus(tables, states) == 2);
  CHECK_THROWS_WITH_AS(cuda::require(states, "cudnn"), "cuDNN (libcudnn.so.9) was not found", MissingError);
  const bool filled = tables.dnn.cudnnCreate;
  CHECK_FALSE(filled);
  CHECK_NOTHROW(cuda::require(states, "cublas"));
}

TEST_CASE("this machine's own libraries are looked at without harm") {
  cuda::Tables tables;
  const auto source = cuda::system_libraries();
  const auto states = cuda::load(tables, *source);
  REQUIRE(states.size() == 7);
  for (const cuda::LibraryState& state : states) CHECK((state.usable() || !state.help.empty()));
}
