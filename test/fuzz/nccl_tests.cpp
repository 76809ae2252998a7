#include "trainyard/io/foreign/nccl_tests.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/fuzz.hpp"
#include "trainyard/io/formats/calibration_file.hpp"

using namespace trainyard;

/// A log of nccl-tests becomes a calibration.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size},
      [](std::string_view text) {
        if (text.starts_with("{\"format\"")) return parse_calibration(text, "input");
        Calibration calibration;
        calibration.collectives = {parse_nccl_tests(text, "input", CollectiveKind::all_gather).table};
        return calibration;
      },
      write_calibration);
  return 0;
}
