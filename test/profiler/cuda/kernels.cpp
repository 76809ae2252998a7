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

TEST_CASE("every kernel of the text is in the list of names, and the other way round") {
  const std::string text = cuda::kernel_source();
  std::size_t count = 0;
  for (std::size_t at = text.find("extern \"C\""); at != std::string::npos; at = text.find("extern \"C\"", at + 1))
    ++count;
  CHECK(count == cuda::kernel_names().size());
  for (const char* name : cuda::kernel_names())
    CHECK(text.find(std::string{"void "} + name + "(") != std::string::npos);
}
