#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "trainyard/io/formats/profile_file.hpp"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size}, [](std::string_view text) { return parse_profile(text, "input"); },
      [](const Profile& profile, std::ostream& out) { write_profile(profile, out); });
  return 0;
}
