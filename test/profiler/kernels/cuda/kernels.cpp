#include "profiler/kernels/cuda/kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "profiler/run/cuda/loader.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;

TEST_CASE("every kernel is compiled for each generation of GPUs, with the program where NVRTC was there then") {
  cuda::Tables tables;
  const auto source = cuda::system_libraries();
  const auto states = cuda::load(tables, *source);
  const auto nvrtc = std::ranges::find(states, "nvrtc", &cuda::LibraryState::name);
  const bool compiles = nvrtc->usable() && !test::is_sanitized();  // NVRTC itself is not sanitized
  const auto embedded = cuda::embedded_architectures();
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    CAPTURE(architecture);
    if (!compiles && std::ranges::find(embedded, architecture) == embedded.end()) {
      test::report_skipped(std::string{architecture} + " is not embedded, and NVRTC is not there: " + nvrtc->problem);
      return;
    }
    const std::string code = cuda::kernel_code(tables.nvrtc, architecture);
    CHECK(code.substr(1, 3) == "ELF");
    for (const char* name : cuda::kernel_names()) {
      CAPTURE(name);
      CHECK(code.find(std::string{".text."} + name) != std::string::npos);
    }
  }
  if (compiles) CHECK_THROWS_AS(cuda::compile_kernels(tables.nvrtc, "sm_5"), std::runtime_error);
}

TEST_CASE("the list of kernels has those of the text, and those that its macros make") {
  const std::string text = cuda::kernel_source();
  const auto names = cuda::kernel_names();
  CHECK(names.size() > 100);
  const auto has = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  for (const char* name : {"delay_ns", "softmax", "Relu_f", "Relu_d", "Add_f", "adam_update"}) CHECK(has(name));
  std::size_t count = 0;
  for (std::size_t at = text.find("\nKERNEL "); at != std::string::npos; at = text.find("\nKERNEL ", at + 1)) {
    ++count;
    const std::size_t from = at + 8;
    CHECK(has(text.substr(from, text.find('(', from) - from)));
  }
  CHECK(count > 30);
}

TEST_CASE("kernels are compiled once a process for each architecture") {
  static int compiled = 0;
  cuda::Nvrtc counting{};
  counting.nvrtcCreateProgram = [](void** program, const char*, const char*, int, const char* const*,
                                   const char* const*) { return *program = program, 0; };
  counting.nvrtcDestroyProgram = [](void**) { return 0; };
  counting.nvrtcCompileProgram = [](void*, int, const char* const*) { return ++compiled, 0; };
  counting.nvrtcGetCUBINSize = [](void*, std::size_t* size) { return *size = 3, 0; };
  counting.nvrtcGetCUBIN = [](void*, char* code) { return std::copy_n("abc", 3, code), 0; };
  for (int device = 0; device < 8; ++device) CHECK(cuda::kernel_code(counting, "sm_test") == "abc");
  CHECK(compiled == 1);
  CHECK_THROWS_AS(cuda::kernel_code({}, "sm_other"), MissingError);
  for (const std::string& architecture : cuda::embedded_architectures()) {
    CAPTURE(architecture);
    CHECK(cuda::kernel_code({}, architecture).substr(1, 3) == "ELF");  // works without NVRTC
  }
}
