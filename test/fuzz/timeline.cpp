#include <cstddef>
#include <cstdint>
#include <utility>

#include "fuzz/fuzz.hpp"
#include "fuzz/toy_problem.hpp"
#include "trainyard/io/formats/timeline_file.hpp"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Problem& problem = fuzz::toy_problem();
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size},
      [&](std::string_view text) {
        Placement placement;
        Timeline timeline = parse_timeline(text, "input", problem, &placement);
        return std::pair{std::move(timeline), std::move(placement)};
      },
      [&](const std::pair<Timeline, Placement>& read, std::ostream& out) {
        write_timeline(read.first, problem, read.second, out);
      });
  return 0;
}
