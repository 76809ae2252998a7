#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "trainyard/io/formats/plan_file.hpp"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size}, [](std::string_view text) { return parse_plan(text, "input"); },
      [](const PlanFile& file, std::ostream& out) { write_plan(file, out); });
  return 0;
}
