#include "profiler/run/cuda/loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "profiler/run/cuda/fake_cuda.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// The message of require_gpus on a fake machine; "N" if it finds N GPUs.
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
  CHECK(said({.runtime_version = 12080}) == "fake/libcudart.so.13 has the version 12.8, but this program needs 13");
  CHECK(said({.driver_version = 12040}) ==
        "fake/libcuda.so.1 has the version 12.4, but this program needs CUDA 13.0 or later");
  CHECK(said({.devices = 0}) == "this machine has no usable NVIDIA GPU");
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

TEST_CASE("libraries are looked for in lists of folders and in wheels") {
  const auto folder = std::filesystem::temp_directory_path() / "trainyard-wheels";
  std::filesystem::create_directories(folder / "lib/python3.11/site-packages/nvidia/cudnn/lib");
  std::filesystem::create_directories(folder / "lib/python3.11/site-packages/nvidia/cu13/lib");
  setenv("VIRTUAL_ENV", folder.c_str(), 1);
  setenv("TRAINYARD_CUDA_LIBRARIES", "/a/lib:/b", 1);
  const auto paths = cuda::system_libraries()->paths({"libcudnn.so.9"});
  unsetenv("VIRTUAL_ENV");
  unsetenv("TRAINYARD_CUDA_LIBRARIES");
  std::filesystem::remove_all(folder);
  const auto place = [&](const std::string& path) { return std::ranges::find(paths, path) - paths.begin(); };
  const std::string wheel = (folder / "lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9").string();
  CHECK(paths.front() == "libcudnn.so.9");
  CHECK(place("/a/lib/libcudnn.so.9") == 1);
  CHECK(place("/b/libcudnn.so.9") == 2);
  CHECK(place("/usr/local/cuda/lib64/libcudnn.so.9") < std::ssize(paths));
  CHECK(place(wheel) < std::ssize(paths));
}

TEST_CASE("a library of another version is passed over where there is a right one") {
  struct TwoRuntimes : FakeCuda {
    std::vector<std::string> paths(const std::vector<std::string>& files) override {
      return {"old/" + files.front(), "new/" + files.front()};
    }
    void* open(const std::string& path) override {
      return path.starts_with("old/libcudart") ? static_cast<void*>(&old) : FakeCuda::open(path);
    }
    void* symbol(void* library, const char* name) override {
      return library == &old ? nullptr : FakeCuda::symbol(library, name);
    }
    char old = 0;
  } two;
  cuda::Tables tables;
  const auto states = cuda::load(tables, two);
  const auto runtime = std::ranges::find(states, "cudart", &cuda::LibraryState::name);
  CHECK(runtime->usable());
  CHECK(runtime->file == "new/libcudart.so.13");
  CHECK(cuda::require_gpus(tables, states) == 2);
}

TEST_CASE("the launch queue is as long as the environment makes it") {
  for (const auto& [scale, entries] : {std::pair{"4x", 4'096}, {"2x", 2'048}, {"0.25x", 256}, {"much", 1'024}}) {
    setenv("CUDA_SCALE_LAUNCH_QUEUES", scale, 1);
    CHECK(cuda::launch_queue_entries() == static_cast<std::size_t>(entries));
  }
  unsetenv("CUDA_SCALE_LAUNCH_QUEUES");
  CHECK(cuda::launch_queue_entries() == 1'024);
}
