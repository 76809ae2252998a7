#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "trainyard/io/formats/calibration_file.hpp"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size},
      [](std::string_view text) { return parse_calibration(text, "input"); },
      [](const Calibration& calibration, std::ostream& out) { write_calibration(calibration, out); });
  return 0;
}
