#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "fuzz/toy_problem.hpp"
#include "trainyard/io/formats/runs_file.hpp"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Problem& problem = fuzz::toy_problem();
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size},
      [&](std::string_view text) { return parse_runs(text, "input", problem); },
      [&](const RecordedRuns& runs, std::ostream& out) { write_runs(runs, problem, out); });
  return 0;
}
