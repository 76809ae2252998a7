#include "profiler/cuda/kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "profiler/cuda/loader.hpp"
#include "support/support.hpp"

using namespace trainyard;

TEST_CASE("every kernel compiles for sm_80, sm_90 and sm_100") {
  cuda::Tables tables;
  const auto source = cuda::system_libraries();
  const auto states = cuda::load(tables, *source);
  const auto nvrtc = std::ranges::find(states, "nvrtc", &cuda::LibraryState::name);
  if (!nvrtc->usable()) {
    test::report_skipped("NVRTC is not there: " + nvrtc->problem);
    return;
  }
  for (const std::string architecture : {"sm_80", "sm_90", "sm_100"}) {
    CAPTURE(architecture);
    const std::string code = cuda::compile_kernels(tables.nvrtc, architecture);
    CHECK(code.substr(1, 3) == "ELF");
    for (const char* name : cuda::kernel_names()) {
      CAPTURE(name);
      CHECK(code.find(std::string{".text."} + name) != std::string::npos);
    }
  }
  CHECK_THROWS_AS(cuda::compile_kernels(tables.nvrtc, "sm_5"), std::runtime_error);
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
